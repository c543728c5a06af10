"""Attention for the compiler: heads beside the batch, the scale folded into the queries, one finite mask value."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..dropout import dropout

# Finite, so that no -inf - -inf can turn into NaN; exp of it is 0 in float32.
_MASKED = -1e30


def dense_attention(
    q_BTHD: jax.Array,
    k_BSHD: jax.Array,
    v_BSHD: jax.Array,
    mask_TS: jax.Array | None,
    *,
    scale: float,
    dropout_rate: float,
    dropout_key: jax.Array | None,
) -> jax.Array:
    """Return softmax(scale * q k^T, masked) v, in the layout that XLA turns into two batched matmuls.

    Every row must see at least one key, as it does under the causal and the full mask.
    """
    q_BHTD, k_BHSD, v_BHSD = (x.swapaxes(1, 2) for x in (q_BTHD * scale, k_BSHD, v_BSHD))
    scores_BHTS = jnp.einsum("bhtd,bhsd->bhts", q_BHTD, k_BHSD, preferred_element_type=jnp.float32)
    if mask_TS is not None:
        scores_BHTS = jnp.where(mask_TS, scores_BHTS, _MASKED)
    weights_BHTS = jax.nn.softmax(scores_BHTS, axis=-1)
    kept_BHTS = dropout(weights_BHTS, dropout_rate, dropout_key).astype(v_BHSD.dtype)
    heads_BHTD = jnp.einsum("bhts,bhsd->bhtd", kept_BHTS, v_BHSD, preferred_element_type=jnp.float32)
    return heads_BHTD.astype(q_BTHD.dtype).swapaxes(1, 2)
