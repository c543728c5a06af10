"""Layer normalisation over the features of one position."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def layer_norm(
    x: jax.Array, scale_C: jax.Array, bias_C: jax.Array | None = None, *, epsilon: float = 1e-5
) -> jax.Array:
    """Normalise each row of C features by its own mean and population variance.

    y = scale * (x - mean) / sqrt(variance + epsilon) + bias, with the variance divided by C (not C - 1) and
    epsilon inside the root. Statistics are float32 whatever x is. (Ba, Kiros & Hinton 2016, arXiv 1607.06450)

    Args:
        x: [..., C]
        scale_C: gamma, [C]
        bias_C: beta, [C], or None
        epsilon: Added to the variance.

    Returns:
        [..., C], in x's dtype.

    Example:
        >>> [round(float(y), 3) for y in layer_norm(jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.ones(4))]
        [-1.342, -0.447, 0.447, 1.342]
    """
    x32 = x.astype(jnp.float32)
    centred = x32 - x32.mean(axis=-1, keepdims=True)
    variance = jnp.square(centred).mean(axis=-1, keepdims=True)
    y = centred * jax.lax.rsqrt(variance + epsilon) * scale_C
    if bias_C is not None:
        y = y + bias_C
    return y.astype(x.dtype)
