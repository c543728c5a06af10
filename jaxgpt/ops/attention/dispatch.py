"""One attention function; the kernels behind it are named, and a named one is never replaced."""

from __future__ import annotations

import functools
import math
import numbers

import jax
import jax.numpy as jnp

from jaxgpt.config import AttentionName, RequestError

from ..contracts import check_floating, check_shape
from ..taps import Tap, no_tap
from .call import Call, Platform, Settings, platform_of
from .masks import Mask, NamedMask, as_mask, lengths
from .masks import window as window_mask
from .registry import DTYPES, KERNELS, Choice, choose
from .spread import division, spread

Implementation = AttentionName


def attention(
    q_BTHD: jax.Array,
    k_BSKD: jax.Array,
    v_BSKD: jax.Array,
    *,
    mask: Mask | NamedMask = "causal",
    window: int | None = None,
    lengths_B: jax.Array | None = None,
    query_offset: int | jax.Array | None = None,
    scale: float | None = None,
    soft_cap: float | None = None,
    dropout_rate: float = 0.0,
    dropout_key: jax.Array | None = None,
    implementation: Implementation = "auto",
    platform: Platform | None = None,
    tap: Tap = no_tap,
) -> jax.Array:
    """Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1).

    Args:
        q_BTHD: Queries, [B,T,H,D].
        k_BSKD: Keys, [B,S,K,D]; each of the K heads serves H/K query heads in a row (Ainslie et al. 2023,
            arXiv 2305.13245).
        v_BSKD: Values, [B,S,K,D].
        mask: "causal" (each query sees itself and what lies before), "full" (each query sees every key), or one
            built by `jaxgpt.masks`. A query that sees nothing gives zeros.
        window: A query sees only keys less than this many positions away; joined to the mask.
        lengths_B: Number of real keys of each row, whole numbers [B]; later ones are hidden. None: all are real.
        query_offset: Position of query 0 among the keys, one whole number or one per row [B]; None means that the
            queries are the last T of the S positions. It matters to causal masks and windows only.
        scale: Factor of the scores; None means 1/sqrt(D).
        soft_cap: Scores become soft_cap * tanh(score / soft_cap) (Gemma Team 2024, arXiv 2408.00118); None leaves
            them as they are.
        dropout_rate: Probability of dropping a weight; active only with a key.
        dropout_key: A PRNG key, or None for no dropout.
        implementation: A kernel's name, which is used or refused, never replaced; "auto" takes the first that pays
            on the platform, as `explain_attention` prints.
        platform: "cpu", "gpu" or "tpu": what the program will be compiled for; None means JAX's default backend.
        tap: Sees `scores` and `weights`, [B,H,T,S].

    Returns:
        heads_BTHD, in the queries' dtype; the softmax is float32.

    Raises:
        RequestError: shapes that do not fit, an unknown mask or implementation, or a named implementation that does
            not support the call.

    Example:
        >>> q = jax.numpy.ones((1, 3, 2, 4))
        >>> attention(q, q, q).shape
        (1, 3, 2, 4)
    """
    mask = _complete(mask, window, lengths_B, query_offset)
    call = _call(q_BTHD, k_BSKD, v_BSKD, mask, platform, scale, soft_cap, dropout_rate, dropout_key, tap)
    kernel = KERNELS[choose(call, implementation).kernel]
    run = functools.partial(spread, kernel.run) if kernel.local else kernel.run
    return run(q_BTHD, k_BSKD, v_BSKD, call.mask, call.settings)


def explain_attention(
    q_BTHD: jax.Array | jax.ShapeDtypeStruct,
    k_BSKD: jax.Array | jax.ShapeDtypeStruct,
    v_BSKD: jax.Array | jax.ShapeDtypeStruct,
    *,
    mask: Mask | NamedMask = "causal",
    window: int | None = None,
    lengths_B: jax.Array | None = None,
    query_offset: int | jax.Array | None = None,
    scale: float | None = None,
    soft_cap: float | None = None,
    dropout_rate: float = 0.0,
    dropout_key: jax.Array | None = None,
    implementation: Implementation = "auto",
    platform: Platform | None = None,
    tap: Tap = no_tap,
) -> Choice:
    """Say which kernel `attention` would run on these arguments, and why each other one would not; computes nothing.

    Args:
        q_BTHD, k_BSKD, v_BSKD: Arrays, or their `jax.ShapeDtypeStruct`.
        mask, window, lengths_B, query_offset: As in `attention`.
        scale, soft_cap, dropout_rate, dropout_key, implementation, platform, tap: As in `attention`.

    Returns:
        The choice; printed, it has a line for each kernel.

    Raises:
        RequestError: as `attention` would.

    Example:
        >>> q = jax.ShapeDtypeStruct((1, 8, 2, 4), "float32")
        >>> explain_attention(q, q, q, implementation="dense").kernel
        'dense'
    """
    mask = _complete(mask, window, lengths_B, query_offset)
    call = _call(q_BTHD, k_BSKD, v_BSKD, mask, platform, scale, soft_cap, dropout_rate, dropout_key, tap)
    return choose(call, implementation)


def _complete(
    mask: Mask | NamedMask,
    window: int | None,
    lengths_B: jax.Array | None,
    query_offset: int | jax.Array | None,
) -> Mask:
    """Return the mask with the parts that stand as arguments of their own."""
    mask = as_mask(mask)
    if window is not None:
        mask = mask & window_mask(window)
    if lengths_B is not None:
        mask = mask & lengths(lengths_B)
    if query_offset is None:
        return mask
    return mask & Mask(query_offset=query_offset)


def _call(q_BTHD, k_BSKD, v_BSKD, mask, platform, scale, soft_cap, dropout_rate, dropout_key, tap) -> Call:
    """Check the arguments against each other and return the facts of the call."""
    check_shape("q_BTHD", q_BTHD)
    B, T, H, D = q_BTHD.shape
    check_shape("k_BSKD", k_BSKD, B=B, D=D)
    S, K = k_BSKD.shape[1:3]
    check_shape("v_BSKD", v_BSKD, B=B, S=S, K=K, D=D)
    if K == 0 or H % K:
        raise RequestError(f"attention: {H} query heads for {K} key heads; K must divide H")
    arrays = (("q_BTHD", q_BTHD), ("k_BSKD", k_BSKD), ("v_BSKD", v_BSKD))
    for name, array in arrays:
        check_floating(name, array)
    dtype = jnp.result_type(*(array.dtype for _, array in arrays)).name
    if dtype not in DTYPES:
        raise RequestError(f"attention: expected {', '.join(DTYPES)}, got {dtype}; convert with .astype")
    _check_number("scale", scale, -math.inf, math.inf)
    _check_number("soft_cap", soft_cap, 0, math.inf)
    _check_number("dropout_rate", dropout_rate, 0, 1, at_least=True)
    settings = Settings(1 / math.sqrt(D) if scale is None else scale, soft_cap, dropout_rate, dropout_key, tap)
    parts = division(B, K)
    divided = parts.rows is not None or parts.heads is not None
    fitted = mask.fitted(B, T, S)
    return Call(platform_of(platform), B, T, S, H, K, D, dtype, fitted, settings, divided, parts.explicit)


def _check_number(name: str, value: float | None, low: float, high: float, *, at_least: bool = False) -> None:
    """Refuse what is no plain number between the bounds; None is one where the argument may be left out."""
    if value is None:
        return
    if isinstance(value, numbers.Real) and (low <= value if at_least else low < value) and value < high:
        return
    bounds = f"{'at least' if at_least else 'above'} {low} and below {high}"
    raise RequestError(f"{name}: expected a plain number {bounds}, got {value!r}")
