"""Attention of a few new queries over a long past: dense, over a span of the keys that holds all that is seen.

The keys of a cache lie there before they are filled, so a shape says only how many there may be. Which of them are
seen is known when the program runs, how many it reads must be known when it is compiled: so it is compiled for a few
spans, and each call takes the narrowest that will do.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from .call import Call, Settings
from .dense import dense_attention
from .masks import Mask

# A span is copied, the whole is read where it lies: above this share of the keys the whole is quicker.
_WIDEST_SHARE = 4
_NARROWEST = 64
_PAYS_FROM = 1024


def decode_attention(
    q_BTHD: jax.Array, k_BSKD: jax.Array, v_BSKD: jax.Array, mask: Mask, settings: Settings
) -> jax.Array:
    """Return softmax(scale * q k^T, masked) v; it costs what the mask shows by position, not what there is room for.

    Keys and values should be views of [B,K,S,D] or [B*K,S,D], the layout of a cache: the branches take them so, and
    whatever lies otherwise is copied whole before.
    """
    T, S = q_BTHD.shape[1], k_BSKD.shape[1]
    spans = [*narrow_spans(S), S]
    begin, end = _seen(mask, T, S)
    narrowest = sum(jnp.asarray(end - begin > span, jnp.int32) for span in spans[:-1])
    branches = [_over(span, mask, settings) for span in spans]
    k, v = (_without_ones(x_BSKD.swapaxes(1, 2)) for x_BSKD in (k_BSKD, v_BSKD))
    return jax.lax.switch(jnp.asarray(narrowest, jnp.int32), branches, begin, q_BTHD, k, v)


def _without_ones(x_BKSD: jax.Array) -> jax.Array:
    """Return it as [S,D], [K,S,D] or [B,K,S,D]: XLA copies a cache that comes to a branch with an axis of size 1."""
    return x_BKSD.reshape(*(size for size in x_BKSD.shape[:2] if size > 1), *x_BKSD.shape[2:])


def narrow_spans(S: int) -> list[int]:
    """Return how many keys the spans have that are narrower than all S, the narrowest first.

    Example:
        >>> narrow_spans(1024), narrow_spans(255)
        ([64, 128, 256], [])
    """
    spans = []
    while (span := S // _WIDEST_SHARE >> len(spans)) >= _NARROWEST:
        spans.append(span)
    return spans[::-1]


def _seen(mask: Mask, T: int, S: int) -> tuple[jax.Array, jax.Array]:
    """Return the range of keys outside of which no row sees any, by distances and lengths."""
    first = S - T if mask.query_offset is None else mask.query_offset
    begin, end = 0, S
    if mask.causal:
        end = first + T
    if mask.reach is not None:
        begin = first - mask.reach + 1
        end = end if mask.causal else first + T - 1 + mask.reach
    if mask.lengths_B is not None:
        end = jnp.minimum(end, mask.lengths_B)
    return jnp.clip(jnp.min(begin), 0), jnp.clip(jnp.max(end), max=S)


def _over(span: int, mask: Mask, settings: Settings) -> Callable[..., jax.Array]:
    """Return dense attention over `span` keys from `begin` on, or over as many that end with the last."""

    def run(begin: jax.Array, q_BTHD: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        B, T = q_BTHD.shape[:2]
        S, D = k.shape[-2:]
        start = jnp.minimum(begin, S - span)
        if span < S:
            k, v = (jax.lax.dynamic_slice_in_dim(x, start, span, axis=-2) for x in (k, v))
        else:
            k, v = jax.lax.optimization_barrier((k, v))  # or XLA reshapes them before the branch
        k_BSKD, v_BSKD = (x.reshape(B, -1, span, D).swapaxes(1, 2) for x in (k, v))
        near = mask if span == S else mask.within(start, span, S - T)
        return dense_attention(q_BTHD, k_BSKD, v_BSKD, near, settings)

    return run


def decode_pays(call: Call) -> str | None:
    """Return why dense does the same as quickly; None where a span may be narrower."""
    if call.S < _PAYS_FROM:
        return f"is not quicker than dense below {_PAYS_FROM} keys"
    if not {"window", "lengths", "query offset"} & set(call.mask.parts):
        return "is dense where no window, length or offset hides keys"
    return None


def decode_refusal(call: Call) -> str | None:
    """Return why a call is none of decoding."""
    if call.decodes:
        return None
    return f"decodes only: up to 8 queries and 4 times as many keys, got {call.T} queries and {call.S} keys"
