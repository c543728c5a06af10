"""One attention function; the implementations behind it are named, and a named one is never replaced."""

from __future__ import annotations

import math
from typing import Literal

import jax

from jaxgpt.config import RequestError, nearest

from ..contracts import check_floating, check_shape
from ..taps import Tap, no_tap
from .dense import dense_attention
from .masks import Mask, NamedMask, as_mask
from .reference import reference_attention

Implementation = Literal["auto", "reference", "dense"]
_IMPLEMENTATIONS = {"reference": reference_attention, "dense": dense_attention}


def _choose(implementation: str, tap: Tap) -> str:
    """Return the implementation to run; only the reference has intermediates that a tap could see."""
    if implementation == "auto":
        return "dense" if tap is no_tap else "reference"
    if implementation not in _IMPLEMENTATIONS:
        known = ("auto", *_IMPLEMENTATIONS)
        close = nearest(implementation, known)
        raise RequestError(f"attention implementation '{implementation}' is not one of {known}{close}")
    if tap is not no_tap and implementation != "reference":
        raise RequestError(
            f"attention implementation '{implementation}' has no scores or weights to trace; "
            "use 'auto' or 'reference' with trace or overrides"
        )
    return implementation


def attention(
    q_BTHD: jax.Array,
    k_BSKD: jax.Array,
    v_BSKD: jax.Array,
    *,
    mask: Mask | NamedMask = "causal",
    implementation: Implementation = "auto",
    scale: float | None = None,
    dropout_rate: float = 0.0,
    dropout_key: jax.Array | None = None,
    tap: Tap = no_tap,
) -> jax.Array:
    """Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1).

    Args:
        q_BTHD: Queries, [B,T,H,D].
        k_BSKD: Keys, [B,S,K,D]; each of the K heads serves H/K query heads in a row (Ainslie et al. 2023,
            arXiv 2305.13245).
        v_BSKD: Values, [B,S,K,D].
        mask: "causal" (the queries are the last T of the S positions, each sees itself and what lies before), "full"
            (each query sees every key), or one built by `jaxgpt.masks`. A query that sees nothing gives zeros.
        implementation: "reference" (textbook), "dense" (laid out for XLA), or "auto": dense, and reference where a
            tap asks for scores. A named one is used or refused.
        scale: Factor of the scores; None means 1/sqrt(D).
        dropout_rate: Probability of dropping a weight; active only with a key.
        dropout_key: A PRNG key, or None for no dropout.
        tap: Sees `scores` and `weights`, [B,H,T,S].

    Returns:
        heads_BTHD, in the queries' dtype; the softmax is float32.

    Raises:
        RequestError: shapes that do not fit, an unknown mask or implementation.

    Example:
        >>> q = jax.numpy.ones((1, 3, 2, 4))
        >>> attention(q, q, q).shape
        (1, 3, 2, 4)
    """
    check_shape("q_BTHD", q_BTHD)
    B, _, H, D = q_BTHD.shape
    check_shape("k_BSKD", k_BSKD, B=B, D=D)
    S, K = k_BSKD.shape[1:3]
    check_shape("v_BSKD", v_BSKD, B=B, S=S, K=K, D=D)
    if H % K:
        raise RequestError(f"attention: {H} query heads for {K} key heads; K must divide H")
    for name, array in (("q_BTHD", q_BTHD), ("k_BSKD", k_BSKD), ("v_BSKD", v_BSKD)):
        check_floating(name, array)
    chosen = _choose(implementation, tap)
    options = {"tap": tap} if chosen == "reference" else {}
    return _IMPLEMENTATIONS[chosen](
        q_BTHD,
        k_BSKD,
        v_BSKD,
        as_mask(mask),
        scale=1 / math.sqrt(D) if scale is None else scale,
        dropout_rate=dropout_rate,
        dropout_key=dropout_key,
        **options,
    )
