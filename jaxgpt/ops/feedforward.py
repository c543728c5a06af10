"""The feed-forward network: the same nonlinear map at every position, mixing features only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import jax

from .contracts import check_shape
from .linear import linear
from .taps import Tap, no_tap

FeedForwardKind = Literal["gelu", "relu", "swiglu", "geglu"]
GeluKind = Literal["exact", "tanh"]


def gelu(x: jax.Array, kind: GeluKind = "exact") -> jax.Array:
    """Return x * Phi(x): by the error function (exact), or by the tanh formula GPT-2 was trained with.

    (Hendrycks & Gimpel 2016, arXiv 1606.08415)

    Example:
        >>> round(float(gelu(jnp.array(1.0))), 6), round(float(gelu(jnp.array(1.0), "tanh")), 6)
        (0.841345, 0.841192)
    """
    return jax.nn.gelu(x, approximate=kind == "tanh")


def _activation(kind: FeedForwardKind, gelu_kind: GeluKind) -> Callable[[jax.Array], jax.Array]:
    if kind == "relu":
        return jax.nn.relu
    return jax.nn.silu if kind == "swiglu" else lambda x: gelu(x, gelu_kind)


def feed_forward(
    x_BTC: jax.Array,
    params: Mapping[str, Mapping[str, jax.Array]],
    *,
    kind: FeedForwardKind = "gelu",
    gelu_kind: GeluKind = "exact",
    tap: Tap = no_tap,
) -> jax.Array:
    """Return f(x W1 + b1) W2 + b2, or gated (f(x Wg + bg) * (x W1 + b1)) W2 + b2, position by position.

    f is GELU (gelu, geglu), ReLU (relu) or SiLU (swiglu); the last two of gelu, relu, swiglu, geglu are gated
    (Shazeer 2020, arXiv 2002.05202).

    Args:
        x_BTC: [..., C]
        params: `up` with kernel [C,F] and bias [F], `down` with kernel [F,C] and bias [C], and where gated `gate`
            like `up`; biases may be absent.
        kind: Which network.
        gelu_kind: Which GELU.
        tap: Sees `pre` (what f is applied to) and `hidden` (what `down` is applied to), both [..., F].

    Returns:
        [..., C]

    Raises:
        RequestError: matrices that do not fit x or each other.

    Example:
        >>> params = {"up": {"kernel": jnp.ones((4, 16))}, "down": {"kernel": jnp.ones((16, 4))}}
        >>> feed_forward(jnp.ones((2, 3, 4)), params).shape
        (2, 3, 4)
    """
    activation = _activation(kind, gelu_kind)
    up_BTF = linear(x_BTC, params["up"])
    check_shape("down_FC", params["down"]["kernel"], F=up_BTF.shape[-1], C=x_BTC.shape[-1])
    if kind in ("swiglu", "geglu"):
        hidden_BTF = activation(tap("pre", linear(x_BTC, params["gate"]))) * up_BTF
    else:
        hidden_BTF = activation(tap("pre", up_BTF))
    return linear(tap("hidden", hidden_BTF), params["down"])
