"""Looking up token vectors, and scoring hidden states against the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from .contracts import check_shape
from .linear import product, scores


def embed(ids_BT: jax.Array, table_VC: jax.Array) -> jax.Array:
    """Return the row of `table_VC` for each id, [B,T,C].

    An id outside 0..V-1 gives a row of NaN: inside a compiled program nothing can be raised, and JAX's usual
    clamping (or, for negative ids, counting from the end) would hide the mistake.
    """
    check_shape("table_VC", table_VC)
    rows = jnp.asarray(table_VC).at[ids_BT]
    return rows.get(mode="fill", fill_value=jnp.nan, wrap_negative_indices=False)


def vocabulary_logits(
    hidden_BTC: jax.Array,
    head: Mapping[str, jax.Array],
    embedding_VC: jax.Array | None,
    *,
    soft_cap: float | None = None,
) -> jax.Array:
    """Score each hidden state against each vocabulary entry, in float32.

    Args:
        hidden_BTC: Final hidden states.
        head: `kernel` [C,V] when the head is untied, and `bias` [V] where the architecture has one.
        embedding_VC: The token embedding when the head is tied to it, else None.
        soft_cap: Bound of the logits, as cap * tanh(logits / cap) (Gemma 2, arXiv 2408.00118, section 2); None
            leaves them.

    Returns:
        logits_BTV, float32.

    Raises:
        RequestError: a matrix or a bias that does not fit.
    """
    check_shape("hidden_BTC", hidden_BTC)
    C = hidden_BTC.shape[-1]
    if embedding_VC is None:
        check_shape("kernel_CV", kernel := head["kernel"], C=C)
        logits_BTV = product(hidden_BTC, kernel)
    else:
        check_shape("embedding_VC", embedding_VC, C=C)
        logits_BTV = scores(hidden_BTC, embedding_VC)
    if "bias" in head:
        check_shape("bias_V", head["bias"], V=logits_BTV.shape[-1])
        logits_BTV = logits_BTV + head["bias"]
    return logits_BTV if soft_cap is None else soft_cap * jnp.tanh(logits_BTV / soft_cap)
