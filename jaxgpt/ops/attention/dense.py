"""Attention for the compiler: heads beside the batch, the scale folded into the queries, one finite mask value."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..dropout import dropout
from .call import Settings
from .masks import Mask
from .reference import soft_capped

# Finite, so that no -inf - -inf can turn into NaN; exp of it is 0 in float32.
HIDDEN = -1e30


def dense_attention(
    q_BTHD: jax.Array, k_BSKD: jax.Array, v_BSKD: jax.Array, mask: Mask, settings: Settings
) -> jax.Array:
    """Return softmax(scale * q k^T, masked) v, in the layout that XLA turns into two batched matmuls.

    The query heads that share a key head stand one below the other as rows of one matrix, [G*T,D], so that no key is
    copied.
    """
    B, T, H, D = q_BTHD.shape
    S, K = k_BSKD.shape[1:3]
    q_BTHD, factor = settings.scaled(q_BTHD)
    q_BKRD = q_BTHD.swapaxes(1, 2).reshape(B, K, H // K * T, D)
    k_BKSD, v_BKSD = (x_BSKD.swapaxes(1, 2) for x_BSKD in (k_BSKD, v_BSKD))
    scores_BKRS = jnp.einsum("bkrd,bksd->bkrs", q_BKRD, k_BKSD, preferred_element_type=jnp.float32)
    scores_BHTS = soft_capped(scores_BKRS * factor, settings.soft_cap).reshape(B, H, T, S)
    visible = mask.visible(T, S)
    if visible is not None:
        scores_BHTS = jnp.where(visible, scores_BHTS, HIDDEN)
    weights_BHTS = jax.nn.softmax(scores_BHTS, axis=-1)
    if mask.may_hide_everything:
        weights_BHTS = jnp.where(visible.any(axis=-1, keepdims=True), weights_BHTS, 0)
    kept_BHTS = dropout(weights_BHTS, settings.dropout_rate, settings.dropout_key).astype(v_BKSD.dtype)
    heads_BKRD = jnp.einsum(
        "bkrs,bksd->bkrd", kept_BHTS.reshape(scores_BKRS.shape), v_BKSD, preferred_element_type=jnp.float32
    )
    return heads_BKRD.astype(q_BTHD.dtype).reshape(B, H, T, D).swapaxes(1, 2)
