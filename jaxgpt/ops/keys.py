"""PRNG keys of one kind, whatever `jax_default_prng_impl` says: a seed means the same numbers in every process."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgpt.config import RequestError


def random_key(seed: int) -> jax.Array:
    """Return the Threefry key of a seed (0..2^32 - 1).

    Example:
        >>> bool(random_key(7) == jax.random.key(7, impl="threefry2x32"))
        True
    """
    return jax.random.key(seed, impl="threefry2x32")


def check_key(key: Any) -> jax.Array:
    """Return the one PRNG key that a caller gave, typed.

    The untyped uint32[2] of `jax.random.PRNGKey` is taken for the Threefry key of those two numbers.

    Raises:
        RequestError: anything else, or several keys.

    Example:
        >>> bool(check_key(jax.random.PRNGKey(7)) == random_key(7))
        True
        >>> check_key(7)
        Traceback (most recent call last):
        jaxgpt.config.errors.RequestError: key: expected a PRNG key such as jax.random.key(0), got 7
    """
    if isinstance(key, jax.Array | np.ndarray) and key.shape == (2,) and key.dtype == np.uint32:
        return jax.random.wrap_key_data(jnp.asarray(key), impl="threefry2x32")
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == ():
        return key
    got = f"{key.dtype}{list(key.shape)}" if isinstance(key, jax.Array | np.ndarray) else repr(key)
    raise RequestError(f"key: expected a PRNG key such as jax.random.key(0), got {got}")
