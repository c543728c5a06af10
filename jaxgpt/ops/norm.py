"""Norms over the features of one position."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .contracts import check_shape


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

    Raises:
        RequestError: a scale or a bias that is not [C].

    Example:
        >>> [round(float(y), 3) for y in layer_norm(jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.ones(4))]
        [-1.342, -0.447, 0.447, 1.342]
    """
    x32 = x.astype(jnp.float32)
    centred = x32 - x32.mean(axis=-1, keepdims=True)
    return _by_root_mean_square(centred, scale_C, bias_C, epsilon).astype(x.dtype)


def rms_norm(
    x: jax.Array, scale_C: jax.Array, bias_C: jax.Array | None = None, *, epsilon: float = 1e-5
) -> jax.Array:
    """Divide each row of C features by the root of its mean square; the mean is left where it is.

    y = scale * x / sqrt(mean(x^2) + epsilon) + bias, in float32. (Zhang & Sennrich 2019, arXiv 1910.07467)

    Args:
        x, scale_C, bias_C, epsilon: As in `layer_norm`.

    Returns:
        [..., C], in x's dtype.

    Raises:
        RequestError: a scale or a bias that is not [C].

    Example:
        >>> [round(float(y), 3) for y in rms_norm(jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.ones(4))]
        [0.365, 0.73, 1.095, 1.461]
    """
    return _by_root_mean_square(x.astype(jnp.float32), scale_C, bias_C, epsilon).astype(x.dtype)


NORMS = {"layernorm": layer_norm, "rmsnorm": rms_norm}


def _by_root_mean_square(x32: jax.Array, scale_C: jax.Array, bias_C: jax.Array | None, epsilon: float) -> jax.Array:
    check_shape("scale_C", scale_C, C=x32.shape[-1])
    mean_square = jnp.square(x32).mean(axis=-1, keepdims=True)
    y = x32 * jax.lax.rsqrt(mean_square + epsilon) * scale_C
    if bias_C is None:
        return y
    check_shape("bias_C", bias_C, C=x32.shape[-1])
    return y + bias_C
