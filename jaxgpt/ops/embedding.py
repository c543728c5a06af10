"""Looking up token vectors, and scoring hidden states against the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp


def embed(ids_BT: jax.Array, table_VC: jax.Array) -> jax.Array:
    """Return the row of `table_VC` for each id, [B,T,C].

    An id outside 0..V-1 gives a row of NaN: inside a compiled program nothing can be raised, and JAX's usual
    clamping (or, for negative ids, counting from the end) would hide the mistake.
    """
    rows = jnp.asarray(table_VC).at[ids_BT]
    return rows.get(mode="fill", fill_value=jnp.nan, wrap_negative_indices=False)


def vocabulary_logits(
    hidden_BTC: jax.Array, head: Mapping[str, jax.Array], embedding_VC: jax.Array | None
) -> jax.Array:
    """Score each hidden state against each vocabulary entry, in float32.

    Args:
        hidden_BTC: Final hidden states.
        head: `kernel` [C,V] when the head is untied, and `bias` [V] where the architecture has one.
        embedding_VC: The token embedding when the head is tied to it, else None.

    Returns:
        logits_BTV, float32.
    """
    if embedding_VC is None:
        spec, matrix = "btc,cv->btv", head["kernel"]
    else:
        spec, matrix = "btc,vc->btv", embedding_VC
    matrix = matrix.astype(hidden_BTC.dtype)
    logits_BTV = jnp.einsum(spec, hidden_BTC, matrix, preferred_element_type=jnp.float32)
    return logits_BTV + head["bias"] if "bias" in head else logits_BTV
