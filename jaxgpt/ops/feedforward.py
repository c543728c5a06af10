"""The feed-forward network: the same nonlinear map at every position, mixing features only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import jax

from .linear import linear
from .taps import Tap, no_tap


def gelu(x: jax.Array, kind: Literal["exact", "tanh"] = "exact") -> jax.Array:
    """Return x * Phi(x): by the error function (exact), or by the tanh formula GPT-2 was trained with.

    (Hendrycks & Gimpel 2016, arXiv 1606.08415)

    Example:
        >>> round(float(gelu(jnp.array(1.0))), 6), round(float(gelu(jnp.array(1.0), "tanh")), 6)
        (0.841345, 0.841192)
    """
    return jax.nn.gelu(x, approximate=kind == "tanh")


def feed_forward(
    x_BTC: jax.Array,
    params: Mapping[str, Mapping[str, jax.Array]],
    *,
    gelu_kind: Literal["exact", "tanh"] = "exact",
    tap: Tap = no_tap,
) -> jax.Array:
    """Return GELU(x W1 + b1) W2 + b2, position by position.

    Args:
        x_BTC: [..., C]
        params: `up` with kernel [C,F] and bias [F], `down` with kernel [F,C] and bias [C]; biases may be absent.
        gelu_kind: Which GELU.
        tap: Sees `pre` (before GELU) and `hidden` (after), both [..., F].

    Returns:
        [..., C]

    Example:
        >>> params = {"up": {"kernel": jnp.ones((4, 16))}, "down": {"kernel": jnp.ones((16, 4))}}
        >>> feed_forward(jnp.ones((2, 3, 4)), params).shape
        (2, 3, 4)
    """
    pre_BTF = tap("pre", linear(x_BTC, params["up"]))
    hidden_BTF = tap("hidden", gelu(pre_BTF, gelu_kind))
    return linear(hidden_BTF, params["down"])
