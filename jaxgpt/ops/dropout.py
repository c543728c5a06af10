"""Dropout with explicit keys: no key, no dropout."""

from __future__ import annotations

from typing import Literal, get_args

import jax
import jax.numpy as jnp

from jaxgpt.config import RequestError

Site = Literal[
    "embedding",
    "attention_weights",
    "attention_update",
    "ffn_update",
    "cross_attention_weights",
    "cross_attention_update",
]
_SITES: tuple[Site, ...] = get_args(Site)
_ENCODER = 2**32 - 1  # a number that no layer has


def site_key(key: jax.Array | None, site: Site) -> jax.Array | None:
    """Return the key of one dropout site inside a layer (None stays None)."""
    return None if key is None else jax.random.fold_in(key, _SITES.index(site))


def layer_key(key: jax.Array | None, layer: int) -> jax.Array | None:
    """Return the key of one block (None stays None); the embedding uses layer -1."""
    return None if key is None else jax.random.fold_in(key, layer + 1)


def encoder_key(key: jax.Array | None) -> jax.Array | None:
    """Return the key of an encoder_decoder's encoder, whose layers are counted by themselves (None stays None)."""
    return None if key is None else jax.random.fold_in(key, _ENCODER)


def dropout(x: jax.Array, rate: float, key: jax.Array | None) -> jax.Array:
    """Zero each element with probability `rate` and divide the others by 1 - rate.

    Every element has its own draw, so rows, heads and positions are independent. Without a key, or at rate 0, x
    comes back untouched. (Srivastava et al. 2014)

    Raises:
        RequestError: a rate below 0, or one that would drop everything.

    Example:
        >>> dropout(jnp.ones(3), 0.5, None).tolist()
        [1.0, 1.0, 1.0]
    """
    if not 0 <= rate < 1:
        raise RequestError(f"dropout rate: expected at least 0 and below 1, got {rate}")
    if key is None or rate == 0:
        return x
    # Drawn flat: the bits are the same as in x's own shape, and compile about five times faster.
    keep = jax.random.bernoulli(key, 1 - rate, (x.size,)).reshape(x.shape)
    return jnp.where(keep, x / (1 - rate), 0).astype(x.dtype)
