"""Multi-head attention: project, attend in each head, bring the heads together."""

from __future__ import annotations

from collections.abc import Mapping

import jax

from ..contracts import check_shape
from ..linear import linear
from ..norm import rms_norm
from ..rotary import Rotation, rotate
from ..taps import Tap, no_tap
from .call import Platform
from .dispatch import Implementation, attention
from .masks import Mask, NamedMask


def multi_head_attention(
    x_BTC: jax.Array,
    params: Mapping[str, Mapping[str, jax.Array]],
    *,
    source_BSC: jax.Array | None = None,
    mask: Mask | NamedMask = "causal",
    rotation: Rotation | None = None,
    norm_epsilon: float = 1e-5,
    implementation: Implementation = "auto",
    platform: Platform | None = None,
    dropout_rate: float = 0.0,
    dropout_key: jax.Array | None = None,
    tap: Tap = no_tap,
) -> jax.Array:
    """Return the attention update of every position (Vaswani et al. 2017, section 3.2.2).

    Args:
        x_BTC: Normalised residual stream, which the queries are made from.
        params: `q` with kernel [C,H,D] and bias [H,D]; `k`, `v` with kernel [C,K,D] and bias [K,D]; `out` with
            kernel [H,D,C] and bias [C]; biases may be absent. `q_norm` and `k_norm` with scale [D] where queries and
            keys are normalised in each head (Dehghani et al. 2023, arXiv 2302.05442, section 2).
        source_BSC: What keys and values are made from: an encoder's output in cross-attention; None means x.
        rotation: Rotary positions of the tokens, or None.
        norm_epsilon: Of `q_norm` and `k_norm`.
        mask, implementation, platform, dropout_rate, dropout_key: As in `attention`.
        tap: Sees `q` [B,T,H,D], `k` and `v` [B,S,K,D] as attention gets them, `scores` and `weights` [B,H,T,S], and
            `heads` [B,T,H,D].

    Returns:
        update_BTC

    Raises:
        RequestError: shapes that do not fit each other.
    """
    check_shape("x_BTC", x_BTC)
    source_BSC = x_BTC if source_BSC is None else source_BSC
    check_shape("source_BSC", source_BSC, B=x_BTC.shape[0])
    q_BTHD, k_BSKD = linear(x_BTC, params["q"]), linear(source_BSC, params["k"])
    if "q_norm" in params:
        q_BTHD = rms_norm(q_BTHD, params["q_norm"]["scale"], epsilon=norm_epsilon)
        k_BSKD = rms_norm(k_BSKD, params["k_norm"]["scale"], epsilon=norm_epsilon)
    if rotation is not None:
        q_BTHD, k_BSKD = rotate(q_BTHD, rotation), rotate(k_BSKD, rotation)
    heads_BTHD = attention(
        tap("q", q_BTHD),
        tap("k", k_BSKD),
        tap("v", linear(source_BSC, params["v"])),
        mask=mask,
        implementation=implementation,
        platform=platform,
        dropout_rate=dropout_rate,
        dropout_key=dropout_key,
        tap=tap,
    )
    return linear(tap("heads", heads_BTHD), params["out"], contract=2)
