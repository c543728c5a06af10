"""The training loss: cross-entropy of the next token, in nats."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .contracts import ContractError, check_shape


def token_cross_entropy(logits_BTV: jax.Array, target_ids_BT: jax.Array) -> jax.Array:
    """Return -log softmax(logits)[target] at each position, [B,T], float32, in nats.

    The target's logit is picked by comparison with an index row instead of a gather: its gradient is then
    elementwise, where a gather's would scatter into a zero array of the logits' size. A target outside 0..V-1
    gives NaN, as in `embed`: a compiled program cannot raise.

    Example:
        >>> float(token_cross_entropy(jnp.zeros((1, 1, 4)), jnp.array([[2]]))[0, 0])  # ln 4
        1.3862943649291992
    """
    check_shape("logits_BTV", logits_BTV)
    check_shape("target_ids_BT", target_ids_BT, B=logits_BTV.shape[0], T=logits_BTV.shape[1])
    logits_BTV = logits_BTV.astype(jnp.float32)
    vocabulary_V = jnp.arange(logits_BTV.shape[-1])
    is_target_BTV = vocabulary_V == target_ids_BT[..., None]
    target_BT = jnp.where(is_target_BTV, logits_BTV, 0).sum(axis=-1)
    nats_BT = jax.nn.logsumexp(logits_BTV, axis=-1) - target_BT
    return jnp.where(is_target_BTV.any(axis=-1), nats_BT, jnp.nan)


def mean_over_tokens(values_BT: jax.Array, weights_BT: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return (mean, sum, count) of `values` over the counted tokens; a count of 0 gives mean 0.

    The sum is divided by the number of counted tokens once, so sums and counts of micro-batches and devices add up
    to the same mean.

    Example:
        >>> [float(x) for x in mean_over_tokens(jnp.array([[4.0, 8.0]]), jnp.array([[1.0, 0.0]]))]
        [4.0, 4.0, 1.0]
    """
    if jnp.shape(weights_BT) != jnp.shape(values_BT):
        got, expected = list(jnp.shape(weights_BT)), list(jnp.shape(values_BT))
        raise ContractError(f"weights_BT: expected the values' shape {expected}, got {got}")
    weights_BT = jnp.asarray(weights_BT, jnp.float32)  # in bfloat16 a count would stop at 256
    counted_BT = weights_BT != 0
    total = jnp.where(counted_BT, values_BT * weights_BT, 0).sum()
    count = weights_BT.sum()
    return total / jnp.where(count == 0, 1, count), total, count
