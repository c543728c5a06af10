"""Attention as the textbook writes it: every intermediate has a name and can be seen or replaced."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..dropout import dropout
from ..taps import Tap, no_tap


def masked_softmax(scores: jax.Array, mask: jax.Array | None) -> jax.Array:
    """Return the softmax over the last axis with masked scores counted as -inf: their weight is exactly 0.

    A row that sees nothing gives zeros, with zero gradients.

    Example:
        >>> masked_softmax(jnp.zeros((1, 3)), jnp.array([[True, True, False]])).tolist()
        [[0.5, 0.5, 0.0]]
    """
    return jax.nn.softmax(scores, axis=-1, where=mask)


def reference_attention(
    q_BTHD: jax.Array,
    k_BSHD: jax.Array,
    v_BSHD: jax.Array,
    mask_TS: jax.Array | None,
    *,
    scale: float,
    dropout_rate: float,
    dropout_key: jax.Array | None,
    tap: Tap = no_tap,
) -> jax.Array:
    """Return softmax(scale * q k^T, masked) v, step by step.

    The tap sees `scores` (scaled, before the mask) and `weights` (after the softmax, before dropout), both [B,H,T,S].
    """
    products_BHTS = jnp.einsum("bthd,bshd->bhts", q_BTHD, k_BSHD, preferred_element_type=jnp.float32)
    scores_BHTS = tap("scores", products_BHTS * scale)
    weights_BHTS = tap("weights", masked_softmax(scores_BHTS, mask_TS))
    kept_BHTS = dropout(weights_BHTS, dropout_rate, dropout_key).astype(v_BSHD.dtype)
    heads_BTHD = jnp.einsum("bhts,bshd->bthd", kept_BHTS, v_BSHD, preferred_element_type=jnp.float32)
    return heads_BTHD.astype(q_BTHD.dtype)
