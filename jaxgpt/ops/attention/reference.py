"""Attention as the textbook writes it: every intermediate has a name and can be seen or replaced."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..dropout import dropout
from .call import Settings
from .masks import Mask


def masked_softmax(scores: jax.Array, visible: jax.Array | None) -> jax.Array:
    """Return the softmax over the last axis with hidden scores counted as -inf: their weight is exactly 0.

    A row that sees nothing gives zeros, with zero gradients.

    Example:
        >>> masked_softmax(jnp.zeros((1, 3)), jnp.array([[True, True, False]])).tolist()
        [[0.5, 0.5, 0.0]]
    """
    return jax.nn.softmax(scores, axis=-1, where=visible)


def soft_capped(scores: jax.Array, cap: float | None) -> jax.Array:
    """Return scores that never reach +-cap: cap * tanh(scores / cap) (Gemma Team 2024, arXiv 2408.00118, section 2).

    Example:
        >>> soft_capped(jnp.array([0.0, 1e9]), 30.0).tolist()
        [0.0, 30.0]
    """
    return scores if cap is None else cap * jnp.tanh(scores / cap)


def reference_attention(
    q_BTHD: jax.Array, k_BSKD: jax.Array, v_BSKD: jax.Array, mask: Mask, settings: Settings
) -> jax.Array:
    """Return softmax(scale * q k^T, masked) v, step by step; a key head is written out for each query head it serves.

    The tap sees `scores` (scaled and capped, before the mask) and `weights` (after the softmax, before dropout), both
    [B,H,T,S].
    """
    T, H, S, K = q_BTHD.shape[1], q_BTHD.shape[2], k_BSKD.shape[1], k_BSKD.shape[2]
    k_BSHD, v_BSHD = (jnp.repeat(x_BSKD, H // K, axis=2) for x_BSKD in (k_BSKD, v_BSKD))
    products_BHTS = jnp.einsum("bthd,bshd->bhts", q_BTHD, k_BSHD, preferred_element_type=jnp.float32)
    scores_BHTS = settings.tap("scores", soft_capped(products_BHTS * settings.scale, settings.soft_cap))
    weights_BHTS = settings.tap("weights", masked_softmax(scores_BHTS, mask.visible(T, S)))
    kept_BHTS = dropout(weights_BHTS, settings.dropout_rate, settings.dropout_key).astype(v_BSHD.dtype)
    heads_BTHD = jnp.einsum("bhts,bshd->bthd", kept_BHTS, v_BSHD, preferred_element_type=jnp.float32)
    return heads_BTHD.astype(q_BTHD.dtype)
