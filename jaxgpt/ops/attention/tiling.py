"""How attention is cut into tiles, and which tiles a block of queries has to look at."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.lax import dynamic_slice_in_dim, fori_loop

from .masks import Mask

# Scores of a tile: a few of them, 64 KiB each, lie in a core's second cache. bench/NOTES.md has the timings.
_ROWS = 128
_KEYS = 128


@dataclasses.dataclass(frozen=True)
class Tiling:
    """How queries and keys are cut.

    Attributes:
        T, S: Queries and keys before padding.
        G: Query heads that share a key head; they stand in one tile, G blocks one below the other.
        block_T, block_S: Queries and keys of a tile.
        factor: Of the products of queries and keys.
        soft_cap: Of the scores, or None.
    """

    T: int
    S: int
    G: int
    block_T: int
    block_S: int
    factor: float
    soft_cap: float | None

    @classmethod
    def of(cls, T: int, S: int, G: int, factor: float, soft_cap: float | None) -> Tiling:
        """Cut T and S into the fewest blocks of at most the sizes above, as equal as multiples of 8 allow."""
        return cls(T, S, G, _equal_block(T, max(_ROWS // G, 8)), _equal_block(S, _KEYS), factor, soft_cap)

    @property
    def blocks(self) -> int:
        """How many blocks the queries have."""
        return -(-self.T // self.block_T)

    @property
    def queries(self) -> int:
        """Queries with padding."""
        return self.blocks * self.block_T

    @property
    def keys(self) -> int:
        """Keys with padding."""
        return -(-self.S // self.block_S) * self.block_S


def _equal_block(length: int, most: int) -> int:
    blocks = -(-length // most)
    return length if blocks == 1 else -(-length // blocks // 8) * 8


def pack(x_BTHD: jax.Array, K: int, tiling: Tiling) -> jax.Array:
    """Return heads as [N=B*K, I blocks, R rows of G heads and block_T queries, D]."""
    B, D = x_BTHD.shape[0], x_BTHD.shape[-1]
    G, block_T = tiling.G, tiling.block_T
    padded_BTHD = jnp.pad(x_BTHD, ((0, 0), (0, tiling.queries - tiling.T), (0, 0), (0, 0)))
    x_BITKGD = padded_BTHD.reshape(B, tiling.blocks, block_T, K, G, D)
    return x_BITKGD.transpose(0, 3, 1, 4, 2, 5).reshape(B * K, tiling.blocks, G * block_T, D)


def unpack(x_NIRD: jax.Array, B: int, K: int, tiling: Tiling) -> jax.Array:
    """Undo `pack`."""
    G, D = tiling.G, x_NIRD.shape[-1]
    x_BKIGTD = x_NIRD.reshape(B, K, tiling.blocks, G, tiling.block_T, D)
    return x_BKIGTD.transpose(0, 2, 4, 1, 3, 5).reshape(B, tiling.queries, K * G, D)[:, : tiling.T]


def padded(x_NSD: jax.Array, length: int) -> jax.Array:
    return jnp.pad(x_NSD, ((0, 0), (0, length - x_NSD.shape[1]), (0, 0)))


def extended(mask: Mask, tiling: Tiling) -> Mask:
    """Return the mask over padded queries and keys; padded keys are hidden, what padded queries see is cut off."""
    T, S = tiling.queries - tiling.T, tiling.keys - tiling.S
    keys_BS, segments, lengths_B = mask.keys_BS, mask.segments, mask.lengths_B
    if S:
        lengths_B = jnp.array([tiling.S]) if lengths_B is None else jnp.minimum(lengths_B, tiling.S)
    if keys_BS is not None:
        keys_BS = jnp.pad(keys_BS, ((0, 0), (0, S)))
    if segments is not None:
        segments = tuple(jnp.pad(x, ((0, 0), (0, more))) for x, more in zip(segments, (T, S), strict=True))
    return dataclasses.replace(mask, keys_BS=keys_BS, segments=segments, lengths_B=lengths_B)


def row_of(mask: Mask, n: jax.Array, count: int) -> Mask:
    """Return the mask of the n-th of `count` = B*K heads: its arrays with the one row that the head belongs to."""

    def row(array: jax.Array) -> jax.Array:
        return dynamic_slice_in_dim(array, n // (count // len(array)), 1)

    return jax.tree.map(row, mask)


@dataclasses.dataclass(frozen=True)
class Sight:
    """What one block of queries of one row sees of the keys.

    Attributes:
        tiling: How queries and keys are cut.
        mask: The `extended` mask of `row_of`.
        block: Which block of queries.
    """

    tiling: Tiling
    mask: Mask
    block: jax.Array

    def over_keys(self, tile: Callable[..., Any], carry: Any) -> Any:
        """Fold `tile(key block, carry, masked=...)` over the key blocks that some query of the block sees."""
        mask = self.mask
        (low, high), (inner_low, inner_high) = self._spans()
        masked, bare = (functools.partial(tile, masked=flag) for flag in (True, False))
        if mask.reach is not None:
            carry = fori_loop(low, inner_low, masked, carry)
        if mask.keys_BS is None and mask.segments is None:
            carry = fori_loop(inner_low, inner_high, bare, carry)
        if mask.parts:
            carry = fori_loop(inner_high, high, masked, carry)
        return carry

    def _spans(self) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """Return the range of key blocks of which something is seen, and in it the range that all see whole."""
        mask, size = self.mask, self.tiling.block_S
        first, last = self._position, self._position + self.tiling.block_T - 1
        begin, end, inner_begin, inner_end = 0, self.tiling.keys, 0, self.tiling.keys
        if mask.causal:
            end, inner_end = last + 1, first + 1
        if mask.reach is not None:
            begin, inner_begin = first - mask.reach + 1, last - mask.reach + 1
            if not mask.causal:
                end, inner_end = last + mask.reach, first + mask.reach
        if mask.lengths_B is not None:
            end, inner_end = (jnp.minimum(x, mask.lengths_B[0]) for x in (end, inner_end))
        if mask.keys_BS is not None or mask.segments is not None:
            inner_end = 0
        blocks = self.tiling.keys // size
        low, high = jnp.clip(begin // size, 0, blocks), jnp.clip(-(-end // size), 0, blocks)
        inner_low = jnp.clip(-(-inner_begin // size), low, jnp.maximum(low, high))
        return (low, high), (inner_low, jnp.clip(inner_end // size, inner_low, jnp.maximum(inner_low, high)))

    @property
    def _position(self) -> Any:
        """Position of the block's first query among the keys."""
        offset = self.mask.query_offset
        if offset is None:
            offset = self.tiling.S - self.tiling.T
        return self.block * self.tiling.block_T + (offset[0] if jnp.ndim(offset) else offset)

    def visible(self, key_block: jax.Array) -> jax.Array:
        """Return which scores of a tile count, [R,block_S]."""
        G, T, S = self.tiling.G, self.tiling.block_T, self.tiling.block_S
        seen = self.mask.tile(self.block * T, T, key_block * S, S, self.tiling.S - self.tiling.T)
        seen_TS = seen.reshape(seen.shape[-2:])
        return jnp.broadcast_to(seen_TS, (G, T, S)).reshape(G * T, S)
