"""Multi-head attention: project, attend in each head, bring the heads together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax

from ..contracts import check_shape
from ..linear import linear
from ..norm import rms_norm
from ..rotary import Rotation, rotate
from ..taps import Tap, no_tap
from .call import Platform
from .dispatch import Implementation, attention
from .key_values import KeyValues
from .masks import Mask, NamedMask


def multi_head_attention(
    x_BTC: jax.Array,
    params: Mapping[str, Mapping[str, jax.Array]],
    *,
    source_BSC: jax.Array | None = None,
    memory: KeyValues | None = None,
    start_B: jax.Array | None = None,
    mask: Mask | NamedMask = "causal",
    rotation: Rotation | None = None,
    norm_epsilon: float = 1e-5,
    implementation: Implementation = "auto",
    platform: Platform | None = None,
    dropout_rate: float = 0.0,
    dropout_key: jax.Array | None = None,
    tap: Tap = no_tap,
) -> Any:
    """Return the attention update of every position (Vaswani et al. 2017, section 3.2.2).

    Args:
        x_BTC: Normalised residual stream, which the queries are made from.
        params: `q` with kernel [C,H,D] and bias [H,D]; `k`, `v` with kernel [C,K,D] and bias [K,D]; `out` with
            kernel [H,D,C] and bias [C]; biases may be absent. `q_norm` and `k_norm` with scale [D] where queries and
            keys are normalised in each head (Dehghani et al. 2023, arXiv 2302.05442, section 2).
        source_BSC: What keys and values are made from: an encoder's output in cross-attention; None means x.
        memory: Keys and values from before. With a `start_B`, those of this call are written into it, from each row's
            slot on, and then all of it is read; without one it is read as it is, and nothing is made from the source.
        start_B: See `memory`; whole numbers [B].
        rotation: Rotary positions of the tokens, or None.
        norm_epsilon: Of `q_norm` and `k_norm`.
        mask, implementation, platform, dropout_rate, dropout_key: As in `attention`.
        tap: Sees `q` [B,T,H,D], `k` and `v` [B,S,K,D] as attention gets them, `scores` and `weights` [B,H,T,S], and
            `heads` [B,T,H,D].

    Returns:
        update_BTC; with a memory the pair (update_BTC, memory as it is now).

    Raises:
        RequestError: shapes that do not fit each other.
    """
    check_shape("x_BTC", x_BTC)
    source_BSC = x_BTC if source_BSC is None else source_BSC
    check_shape("source_BSC", source_BSC, B=x_BTC.shape[0])

    def projected(x: jax.Array, name: Literal["q", "k"]) -> jax.Array:
        heads = linear(x, params[name])
        if f"{name}_norm" in params:
            heads = rms_norm(heads, params[f"{name}_norm"]["scale"], epsilon=norm_epsilon)
        return heads if rotation is None else rotate(heads, rotation)

    if memory is None or start_B is not None:
        k_BSKD, v_BSKD = projected(source_BSC, "k"), linear(source_BSC, params["v"])
    if memory is not None:
        memory = memory if start_B is None else memory.written(k_BSKD, v_BSKD, start_B)
        k_BSKD, v_BSKD = memory.views(x_BTC.shape[0])
    heads_BTHD = attention(
        tap("q", projected(x_BTC, "q")),
        tap("k", k_BSKD),
        tap("v", v_BSKD),
        mask=mask,
        implementation=implementation,
        platform=platform,
        dropout_rate=dropout_rate,
        dropout_key=dropout_key,
        tap=tap,
    )
    update_BTC = linear(tap("heads", heads_BTHD), params["out"], contract=2)
    return update_BTC if memory is None else (update_BTC, memory)
