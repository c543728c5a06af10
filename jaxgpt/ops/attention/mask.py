"""Which keys a query may see."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp

from jaxgpt.config import RequestError

Mask = Literal["causal", "full"]


def causal_mask(T: int, S: int) -> jax.Array:
    """Return [T,S], true where a query may see a key: the T queries are the last T of the S positions.

    Raises:
        RequestError: more queries than keys.

    Example:
        >>> causal_mask(2, 3).astype(int).tolist()
        [[1, 1, 0], [1, 1, 1]]
    """
    if T > S:
        raise RequestError(
            f"causal mask: {T} queries for {S} keys; queries are the last positions of the keys, so there can "
            "be no more of them: pass every key, or mask='full' for cross-attention"
        )
    return jnp.arange(S) <= jnp.arange(T)[:, None] + (S - T)


def build_mask(mask: Mask, T: int, S: int) -> jax.Array | None:
    """Return the boolean [T,S] of a named mask; None means that every query sees every key."""
    if not isinstance(mask, str) or mask not in ("causal", "full"):
        raise RequestError(f"mask: expected 'causal' or 'full', got {mask!r}")
    return causal_mask(T, S) if mask == "causal" else None
