"""PRNG keys of one kind, whatever `jax_default_prng_impl` says: a seed means the same numbers in every process."""

from __future__ import annotations

import jax


def random_key(seed: int) -> jax.Array:
    """Return the Threefry key of a seed (0..2^32 - 1).

    Example:
        >>> bool(random_key(7) == jax.random.key(7, impl="threefry2x32"))
        True
    """
    return jax.random.key(seed, impl="threefry2x32")
