"""What no step can beat: reading its bytes and nothing else, on this machine, from wherever so many bytes lie."""

from __future__ import annotations

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp

_COLUMNS = 768


def reader(size: float, times: int) -> Callable[[], float]:
    """Return a call that reads an array so many times over and returns the seconds of one reading.

    It is a product of a matrix with a vector, in a loop inside one program, as the steps of generation are. What fits
    a cache is read from there, as a small model's parameters are.

    Args:
        size: Bytes of the array.
        times: Readings of a call.

    Example:
        >>> reader(1e6, 2)() > 0
        True
    """
    rows = max(1, round(size / 4 / _COLUMNS))
    matrix_RC, x_C = jnp.full((rows, _COLUMNS), 1 / _COLUMNS), jnp.ones(_COLUMNS)
    read = jax.jit(lambda matrix_RC, x_C: jax.lax.fori_loop(0, times, lambda _, x_C: _once(matrix_RC, x_C), x_C))
    jax.block_until_ready(read(matrix_RC, x_C))

    def call() -> float:
        start = time.perf_counter()
        jax.block_until_ready(read(matrix_RC, x_C))
        return (time.perf_counter() - start) / times

    return call


def _once(matrix_RC: jax.Array, x_C: jax.Array) -> jax.Array:
    """Return a vector that depends on every row's product, or the compiler would leave some out."""
    return 0.5 * (x_C + (matrix_RC @ x_C).max())
