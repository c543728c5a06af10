"""Splash attention, the TPU kernel that ships with JAX: what the mask hides in whole blocks is never read.

It is written in Pallas (jax.experimental.pallas.ops.tpu.splash_attention), so memory is linear in the length.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from .call import Call, Settings
from .dense import HIDDEN
from .masks import Mask

if TYPE_CHECKING:
    from jax.experimental.pallas.ops.tpu.splash_attention import BlockSizes, SegmentIds, splash_attention_mask
    from jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_kernel import SplashAttentionKernel

_LANES = 128  # numbers beside each other in a TPU's registers; sides of blocks are whole multiples
_BLOCKS = (512, 384, 256, _LANES)


def splash_attention(
    q_BTHD: jax.Array, k_BSKD: jax.Array, v_BSKD: jax.Array, mask: Mask, settings: Settings
) -> jax.Array:
    """Return softmax(scale * q k^T, masked) v; no key is copied for the query heads that share it."""
    T, H, S = q_BTHD.shape[1], q_BTHD.shape[2], k_BSKD.shape[1]
    kernel = _kernel(T, S, H, mask.causal, mask.reach, _offset(mask, T, S), settings.soft_cap)
    ids = _segment_ids(mask, T, S)
    # A score that every query has beside those of its keys, with no value: it is what a query that sees nothing sees.
    nothing_H = jnp.full(H, HIDDEN, jnp.float32) if mask.may_hide_everything else None
    rows = jax.vmap(kernel, in_axes=(0, 0, 0, None if ids is None else 0, None))
    q_BHTD, k_BKSD, v_BKSD = (x.swapaxes(1, 2) for x in (q_BTHD * settings.scale, k_BSKD, v_BSKD))
    return rows(q_BHTD, k_BKSD, v_BKSD, ids, nothing_H).swapaxes(1, 2)


def splash_refusal(call: Call) -> str | None:
    """Return what the kernel asks of sizes and offsets, where a call does not meet it."""
    if call.T % _LANES or call.S % _LANES:
        return f"needs lengths that are multiples of {_LANES}, got {call.T} queries and {call.S} keys"
    if not isinstance(_offset(call.mask, call.T, call.S), int):
        return "needs a query_offset that is one plain number"
    return None


def _offset(mask: Mask, T: int, S: int) -> int | jax.Array:
    return S - T if mask.query_offset is None else mask.query_offset


@functools.lru_cache
def _kernel(
    T: int, S: int, H: int, causal: bool, reach: int | None, offset: int, soft_cap: float | None
) -> SplashAttentionKernel:
    """Return the kernel of a mask by distance, [H,T,D] and [K,S,D] to [H,T,D].

    Its tables of blocks are NumPy's, so that nothing runs on a device while a program is traced, and one kernel
    serves every layer.
    """
    from jax.experimental.pallas.ops.tpu import splash_attention as splash
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel, splash_attention_mask_info

    blocks = _block_sizes(T, S)
    mask = splash.MultiHeadMask([_by_distance(T, S, causal, reach, offset)] * H)
    one_device = {"head_shards": 1, "q_seq_shards": 1}
    by_queries, shown = splash_attention_mask_info.process_mask(mask, (blocks.block_q, blocks.block_kv), **one_device)
    by_keys, _ = splash_attention_mask_info.process_mask_dkv(mask, (blocks.block_q, blocks.block_kv), **one_device)
    return splash_attention_kernel.SplashAttentionKernel(
        by_queries,
        by_queries,
        by_keys,
        block_sizes=blocks,
        is_mqa=False,
        save_residuals=False,
        mask_value=splash_attention_kernel.DEFAULT_MASK_VALUE,
        attn_logits_soft_cap=soft_cap,
        residual_checkpoint_name=None,
        mask_function=shown,
        interpret=False,
    )


def _by_distance(T: int, S: int, causal: bool, reach: int | None, offset: int) -> splash_attention_mask.Mask:
    from jax.experimental.pallas.ops.tpu import splash_attention as splash

    if reach is not None:
        return splash.LocalMask((T, S), (reach - 1, 0 if causal else reach - 1), offset)
    return splash.CausalMask((T, S), offset) if causal else splash.FullMask((T, S))


def _block_sizes(T: int, S: int) -> BlockSizes:
    """Return the largest blocks that divide the lengths, the same forward and backward."""
    from jax.experimental.pallas.ops.tpu import splash_attention as splash

    of_queries, of_keys = (next(block for block in _BLOCKS if length % block == 0) for length in (T, S))
    return splash.BlockSizes(
        block_q=of_queries,
        block_kv=of_keys,
        block_q_dkv=of_queries,
        block_kv_dkv=of_keys,
        block_q_dq=of_queries,
        block_kv_dq=of_keys,
    )


def _segment_ids(mask: Mask, T: int, S: int) -> SegmentIds | None:
    """Return ids that differ where a query may not see a key; a key that is not real has an id that no query has."""
    from jax.experimental.pallas.ops.tpu import splash_attention as splash

    real = Mask(keys_BS=mask.keys_BS, lengths_B=mask.lengths_B).visible(T, S)
    if real is None and mask.segments is None:
        return None
    if mask.segments is None:
        ids_BS = real[:, 0, 0].astype(jnp.int32)
        return splash.SegmentIds(jnp.ones((real.shape[0], T), jnp.int32), ids_BS)
    ids_BT, ids_BS = (ids.astype(jnp.int32) for ids in mask.segments)
    if real is not None:
        ids_BS = jnp.where(real[:, 0, 0], ids_BS, ids_BT.min(axis=1, keepdims=True) - 1)
    return splash.SegmentIds(ids_BT, ids_BS)
