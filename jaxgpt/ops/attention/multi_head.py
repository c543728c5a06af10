"""Multi-head self-attention: project, attend in each head, bring the heads together."""

from __future__ import annotations

from collections.abc import Mapping

import jax

from ..linear import linear
from ..taps import Tap, no_tap
from .dispatch import Implementation, attention
from .mask import Mask


def multi_head_attention(
    x_BTC: jax.Array,
    params: Mapping[str, Mapping[str, jax.Array]],
    *,
    mask: Mask = "causal",
    implementation: Implementation = "auto",
    dropout_rate: float = 0.0,
    dropout_key: jax.Array | None = None,
    tap: Tap = no_tap,
) -> jax.Array:
    """Return the attention update of every position (Vaswani et al. 2017, section 3.2.2).

    Args:
        x_BTC: Normalised residual stream.
        params: `q`, `k`, `v` with kernel [C,H,D] and bias [H,D]; `out` with kernel [H,D,C] and bias [C]; biases may
            be absent.
        mask, implementation, dropout_rate, dropout_key: As in `attention`.
        tap: Sees `q`, `k`, `v` and `heads` [B,T,H,D], `scores` and `weights` [B,H,T,T].

    Returns:
        update_BTC
    """
    q_BTHD = tap("q", linear(x_BTC, params["q"]))
    k_BTHD = tap("k", linear(x_BTC, params["k"]))
    v_BTHD = tap("v", linear(x_BTC, params["v"]))
    heads_BTHD = attention(
        q_BTHD,
        k_BTHD,
        v_BTHD,
        mask=mask,
        implementation=implementation,
        dropout_rate=dropout_rate,
        dropout_key=dropout_key,
        tap=tap,
    )
    return linear(tap("heads", heads_BTHD), params["out"], contract=2)
