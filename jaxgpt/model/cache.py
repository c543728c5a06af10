"""The KV cache: what a decoder remembers of the tokens it has read, an explicit argument and result of `apply`.

Slot s of a row holds its token at position s, so a row's length says which slots are filled and where the next token
goes, and the causal mask hides the others: nothing else is kept of padding, pieces or neighbours.
"""

from __future__ import annotations

import dataclasses
import functools
import numbers
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxgpt.config import ExecutionConfig, ModelConfig, RequestError
from jaxgpt.ops.attention.key_values import KeyValues, empty


class BlockMemory(NamedTuple):
    """What one block remembers: of the tokens before, and of the source where it looks at one."""

    attention: KeyValues
    cross_attention: KeyValues | None


@dataclasses.dataclass(frozen=True)
class Cache:
    """The memory of B rows; each row holds tokens of its own, from position 0 on.

    Attributes:
        blocks: The memory of each block.
        lengths_B: How many tokens each row has read, int32; the next one stands at that position.
        source_mask_BS: True at the source's real tokens, in an encoder_decoder; all false until a source is read.
    """

    blocks: tuple[BlockMemory, ...]
    lengths_B: jax.Array
    source_mask_BS: jax.Array | None

    @property
    def slots(self) -> int:
        """How many tokens a row has room for."""
        return self.blocks[0].attention.slots

    def positions(self, T: int, mask_BT: jax.Array | None) -> jax.Array:
        """Return the positions of T new tokens, [B,T]; padding gets one that exists, whatever it is."""
        positions_BT = self.lengths_B[:, None] + jnp.arange(T)
        return positions_BT if mask_BT is None else jnp.where(mask_BT, positions_BT, 0)

    def after(self, blocks: tuple[BlockMemory, ...], T: int, mask_BT: jax.Array | None) -> Cache:
        """Return the cache once T more tokens, real where `mask_BT` says, are in the memory of its blocks."""
        read_B = T if mask_BT is None else jnp.sum(mask_BT, axis=1, dtype=jnp.int32)
        return dataclasses.replace(self, blocks=blocks, lengths_B=self.lengths_B + read_B)

    def of_source(self, mask_BS: jax.Array) -> Cache:
        """Return the cache with a source whose real tokens are these; it has as many slots or fewer."""
        missing = self.source_mask_BS.shape[1] - mask_BS.shape[1]
        return dataclasses.replace(self, source_mask_BS=jnp.pad(mask_BS != 0, ((0, 0), (0, missing))))

    def fits(self, T: int, mask_BT: jax.Array | None, context_length: int) -> jax.Array:
        """Return which rows have room for T more tokens, and padding only behind real ones; [B]."""
        fits_B = self.lengths_B + T <= self.slots
        if mask_BT is None:
            return fits_B & (self.lengths_B + T <= context_length)
        behind_B = (mask_BT[:, 1:] <= mask_BT[:, :-1]).all(axis=1)
        return fits_B & (self.lengths_B + mask_BT.sum(axis=1) <= context_length) & behind_B

    def grown(self, length: int) -> Cache:
        """Return the cache with room for `length` tokens.

        Raises:
            RequestError: fewer than it has room for now.
        """
        if length < self.slots:
            raise RequestError(f"cache: it has room for {self.slots} tokens and cannot shrink to {length}")
        blocks = tuple(block._replace(attention=block.attention.grown(length)) for block in self.blocks)
        return dataclasses.replace(self, blocks=blocks)

    def repeated(self, n: int) -> Cache:
        """Return the cache with each row n times in a row."""
        B = self.lengths_B.shape[0]

        def repeated(block: BlockMemory) -> BlockMemory:
            return BlockMemory(*(None if memory is None else memory.repeated(B, n) for memory in block))

        blocks = tuple(repeated(block) for block in self.blocks)
        mask_BS = None if self.source_mask_BS is None else jnp.repeat(self.source_mask_BS, n, axis=0)
        return Cache(blocks, jnp.repeat(self.lengths_B, n), mask_BS)


jax.tree_util.register_dataclass(Cache, data_fields=["blocks", "lengths_B", "source_mask_BS"], meta_fields=[])


def make_cache(
    config: ModelConfig,
    batch: int,
    length: int,
    *,
    source_length: int | None = None,
    execution: ExecutionConfig | None = None,
) -> Cache:
    """Return an empty cache: pass it to `apply`, which returns the logits and the cache with the new tokens in it.

    Args:
        config: The architecture.
        batch: Rows, B.
        length: Tokens that each row has room for, at most the context.
        source_length: Tokens that an encoder_decoder's source has room for, at most the context.
        execution: How `apply` will run, for the number format.

    Raises:
        RequestError: an encoder, sizes that are no whole numbers or that the context does not have, or a
            source_length that is missing or that the family has no use for.

    Example:
        >>> config = ModelConfig.preset("minigpt")
        >>> params = jaxgpt.init(config, key=jax.random.key(0))
        >>> logits_BTV, cache = jaxgpt.apply(config, params, np.array([[0]]), cache=make_cache(config, 1, 2))
        >>> logits_BTV, cache = jaxgpt.apply(config, params, np.array([[1]]), cache=cache)
        >>> logits_BTV.shape, cache.lengths_B.tolist()
        ((1, 1, 5), [2])
    """
    if config.family == "encoder":
        raise RequestError("make_cache: an encoder reads its whole text at once and has no use for a cache")
    has_source = config.family == "encoder_decoder"
    if has_source != (source_length is not None):
        advice = "pass the most tokens a source has" if has_source else "leave it out"
        raise RequestError(f"source_length: got {source_length} for a model of family {config.family}; {advice}")
    _check_size("batch", batch)
    for name, size in (("length", length), ("source_length", source_length)):
        if size is not None:
            _check_size(name, size, config.context_length)
    return _empty(config, execution or ExecutionConfig(), batch, length, source_length)


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _empty(
    config: ModelConfig, execution: ExecutionConfig, batch: int, length: int, source_length: int | None
) -> Cache:
    """One program for all arrays: as many calls would take longer than a small model's step."""
    K, D, dtype = config.key_value_heads, config.head_width, execution.compute_dtype

    def memory(size: int | None) -> KeyValues | None:
        return None if size is None else empty(batch, size, K, D, dtype)

    source_mask_BS = None if source_length is None else jnp.zeros((batch, source_length), bool)
    blocks = tuple(BlockMemory(memory(length), memory(source_length)) for _ in range(config.layers))
    return Cache(blocks, jnp.zeros(batch, jnp.int32), source_mask_BS)


def _check_size(name: str, size: int, most: int | None = None) -> None:
    if isinstance(size, bool) or not isinstance(size, numbers.Integral) or size < 1:
        raise RequestError(f"make_cache: expected {name} to be a whole number of at least 1, got {size!r}")
    if most is not None and size > most:
        raise RequestError(f"make_cache: {name} {size} is above the context of {most}; ask for at most that")
