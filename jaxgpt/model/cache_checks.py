"""What a cache cannot serve: another architecture, rows without room, padding where a token goes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgpt.config import ExecutionConfig, ModelConfig, RequestError
from jaxgpt.ops.contracts import check_shape

from .cache import Cache
from .inputs import Inputs


def check_cache(config: ModelConfig, execution: ExecutionConfig, inputs: Inputs) -> None:
    """Refuse the cache of `inputs`, if there is one, where it is of another architecture, format, batch or size."""
    cache = inputs.cache
    if cache is None:
        return
    for name in ("positions_BT", "segment_ids_BT"):
        if getattr(inputs, name) is not None:
            raise RequestError(f"{name}: with a cache, a row's tokens follow those it holds; leave it out")
    B, T = jnp.shape(inputs.token_ids_BT)
    check_shape("lengths_B", cache.lengths_B, B=B)
    _check_format(config, execution, cache, B)
    if inputs.source_ids_BS is not None:
        slots, S = cache.source_mask_BS.shape[1], inputs.source_ids_BS.shape[1]
        if slots < S:
            raise RequestError(f"cache: it has room for a source of {slots} tokens, got {S}; make a longer one")
    _check_room(config, inputs, cache, T)
    if inputs.source_ids_BS is None and _known(cache.source_mask_BS) and not np.any(cache.source_mask_BS):
        raise RequestError("source_ids_BS: the cache has read no source yet; pass the source with the first tokens")


def _check_format(config: ModelConfig, execution: ExecutionConfig, cache: Cache, B: int) -> None:
    keys = cache.blocks[0].attention.k
    has_source = cache.source_mask_BS is not None
    size = B * config.key_value_heads * cache.slots * config.head_width
    same = (len(cache.blocks), has_source, keys.size, keys.shape[-1]) == (
        config.layers,
        config.family == "encoder_decoder",
        size,
        config.head_width,
    )
    if not same:
        raise RequestError("cache: it was made for another architecture; make it with make_cache(config, ...)")
    if keys.dtype != jnp.dtype(execution.compute_dtype):
        raise RequestError(
            f"cache: it holds {keys.dtype}, but the execution computes in {execution.compute_dtype}; make it with "
            "make_cache(..., execution=execution)"
        )


def _check_room(config: ModelConfig, inputs: Inputs, cache: Cache, T: int) -> None:
    mask_BT = inputs.mask_BT
    if _known(mask_BT) and (np.diff(np.asarray(mask_BT).astype(int), axis=1) > 0).any():
        raise RequestError("mask_BT: with a cache, padding stands behind a row's real tokens; move it there")
    if not _known(cache.lengths_B):
        return
    used_B = np.asarray(cache.lengths_B)
    if used_B.max() + T > cache.slots:
        padding = "" if mask_BT is None else ", padding counted"
        raise RequestError(
            f"cache: a row holds {used_B.max()} tokens, and {T} more{padding} do not fit into its {cache.slots} "
            "slots; make a longer one with make_cache, or cache.grown(length)"
        )
    if mask_BT is not None and not _known(mask_BT):
        return
    end = (used_B + (T if mask_BT is None else np.asarray(mask_BT).sum(axis=1))).max()
    if end > config.context_length:
        raise RequestError(
            f"cache: a row would hold {end} tokens, above the context of {config.context_length}; read fewer"
        )


def _known(array: Any) -> bool:
    return array is not None and not isinstance(array, jax.core.Tracer)
