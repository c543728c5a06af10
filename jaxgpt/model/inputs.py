"""What goes into the model: ids, what is padding, which document each belongs to, positions, and a source."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgpt.config import ModelConfig, RequestError
from jaxgpt.ops.attention import Mask, masks
from jaxgpt.ops.contracts import check_shape, check_token_ids

from .cache import BlockMemory, Cache


@dataclasses.dataclass(frozen=True)
class Inputs:
    """The arguments of one forward pass, and the masks and positions that follow from them.

    Attributes:
        token_ids_BT: Token ids.
        mask_BT: True at real tokens, false at padding (either side); None means that all are real.
        segment_ids_BT: Which document each token of a packed row belongs to; tokens see only their own.
        positions_BT: Positions to use instead of those that follow from the mask and the segments.
        source_ids_BS: Token ids of the encoder's side of an encoder_decoder.
        source_mask_BS: True at the source's real tokens.
        cache: What the rows have read before: these tokens follow, and see it; None where they are all there is.
    """

    token_ids_BT: jax.Array
    mask_BT: jax.Array | None = None
    segment_ids_BT: jax.Array | None = None
    positions_BT: jax.Array | None = None
    source_ids_BS: jax.Array | None = None
    source_mask_BS: jax.Array | None = None
    cache: Cache | None = None

    @property
    def positions(self) -> jax.Array | None:
        """Each token's position, [B,T]; None where it is simply its index."""
        if self.positions_BT is not None:
            return self.positions_BT
        if self.cache is not None:
            return self.cache.positions(self.token_ids_BT.shape[1], self.mask_BT)
        return masks.positions(self.token_ids_BT.shape[1], self.mask_BT, self.segment_ids_BT)

    def mask(self, direction: Mask, window: int | None) -> Mask:
        """Return the mask of self-attention: the family's direction, and what else hides a key."""
        mask = direction if window is None else direction & masks.window(window)
        if self.cache is not None:
            # Padding stands behind a row's real tokens, in slots that come after all that they may see.
            return mask & Mask(query_offset=self.cache.lengths_B)
        if self.mask_BT is not None:
            mask = mask & masks.padding(self.mask_BT)
        return mask if self.segment_ids_BT is None else mask & masks.segments(masks.runs(self.segment_ids_BT))

    @property
    def source_mask(self) -> Mask:
        """The mask of cross-attention: every query sees every real source token."""
        if self.cache is not None:
            return masks.padding(self._with_source.source_mask_BS)
        return masks.full() if self.source_mask_BS is None else masks.padding(self.source_mask_BS)

    @property
    def _with_source(self) -> Cache:
        """The cache, with the source of this call if there is one."""
        if self.source_ids_BS is None:
            return self.cache
        mask_BS = self.source_mask_BS
        return self.cache.of_source(jnp.ones(self.source_ids_BS.shape, bool) if mask_BS is None else mask_BS)

    def cache_after(self, blocks: tuple[BlockMemory, ...]) -> Cache:
        """Return the cache with these tokens in it, whose keys and values are in the memory of `blocks`."""
        return self._with_source.after(blocks, self.token_ids_BT.shape[1], self.mask_BT)


def check_inputs(config: ModelConfig, inputs: Inputs) -> None:
    """Refuse inputs whose shapes, dtypes or family do not fit; values are checked by `check_values`."""
    has_source = config.family == "encoder_decoder"
    for name in ("source_ids_BS", "source_mask_BS"):
        if getattr(inputs, name) is not None and not has_source:
            raise RequestError(f"{name}: a model of family {config.family} reads no source; leave it out")
    if has_source and inputs.source_ids_BS is None and inputs.cache is None:
        raise RequestError("source_ids_BS is missing; an encoder_decoder needs the source's token ids [B,S]")
    if has_source and inputs.segment_ids_BT is not None:
        raise RequestError("segment_ids_BT: an encoder_decoder takes one source per row; pass unpacked rows")
    _check_ids(config, "token_ids_BT", inputs.token_ids_BT)
    B, T = inputs.token_ids_BT.shape
    for name in ("mask_BT", "segment_ids_BT", "positions_BT"):
        if getattr(inputs, name) is not None:
            check_shape(name, getattr(inputs, name), B=B, T=T)
    for name in ("segment_ids_BT", "positions_BT"):
        if getattr(inputs, name) is not None:
            check_token_ids(name, getattr(inputs, name))
    if config.position == "none" and inputs.positions_BT is not None:
        raise RequestError("positions_BT means nothing for a model without positions; leave it out")
    if inputs.source_mask_BS is not None and inputs.source_ids_BS is None:
        raise RequestError("source_mask_BS: there is no source_ids_BS that it could be the mask of; pass both")
    if inputs.source_ids_BS is not None:
        _check_ids(config, "source_ids_BS", inputs.source_ids_BS)
        S = inputs.source_ids_BS.shape[1]
        check_shape("source_ids_BS", inputs.source_ids_BS, B=B)
        if inputs.source_mask_BS is not None:
            check_shape("source_mask_BS", inputs.source_mask_BS, B=B, S=S)


def _check_ids(config: ModelConfig, name: str, ids: jax.Array) -> None:
    check_token_ids(name, ids)
    length, limit = ids.shape[1], config.context_length
    if limit < length:
        raise RequestError(
            f"{name} has {length} positions, but model.context_length is {limit}; "
            f"pass at most the last {limit} ids (ids[:, -{limit}:]), or build a model with a longer context"
        )


def check_values(config: ModelConfig, inputs: Inputs) -> None:
    """Refuse ids outside the vocabulary and positions outside the context, where their values are known."""
    check_id_range("token_ids_BT", inputs.token_ids_BT, config.vocab_size)
    if inputs.source_ids_BS is not None:
        check_id_range("source_ids_BS", inputs.source_ids_BS, config.vocab_size)
    if config.window is not None and inputs.segment_ids_BT is None:
        _check_padding_outside(inputs.mask_BT)
    if inputs.positions_BT is not None:
        _check_range(
            "positions_BT", inputs.positions_BT, config.context_length, "the context", "positions count from 0"
        )


def _check_padding_outside(mask_BT: Any) -> None:
    """Refuse padding between real tokens: a window counts places, and would count it."""
    if mask_BT is None or isinstance(mask_BT, jax.core.Tracer):
        return
    real_BT = np.asarray(mask_BT) != 0
    beginnings_B = (np.diff(real_BT.astype(int), axis=1, prepend=0) == 1).sum(axis=1)
    if (beginnings_B > 1).any():
        raise RequestError(
            f"mask_BT: row {int((beginnings_B > 1).argmax())} has padding between its real tokens, which a model "
            "with a window would count as distance; move the padding to one side"
        )


def check_id_range(name: str, ids: Any, vocab_size: int) -> None:
    """Refuse ids outside the vocabulary, where their values are known (not inside a traced function).

    A compiled gather cannot raise; there an id out of range gives NaN.
    """
    _check_range(name, ids, vocab_size, "the vocabulary", "encode the text with this model's own tokenizer")


def _check_range(name: str, values: Any, limit: int, what: str, advice: str) -> None:
    if isinstance(values, jax.core.Tracer):
        return
    known = np.asarray(values)
    bad = (known < 0) | (known >= limit)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise RequestError(f"{name}{list(where)} is {int(known[where])}, outside {what} 0..{limit - 1}; {advice}")
