"""Shape contracts: an array's name carries its axes, and chex asserts them at every boundary.

The checks read shapes only, so a compiled program does not contain them.
"""

from __future__ import annotations

import chex
import jax.numpy as jnp

from jaxgpt.config import RequestError


class ContractError(RequestError):
    """An array does not have the axes, or the dtype, that its name promises."""


def check_shape(name: str, array: chex.Array, **sizes: int) -> None:
    """Assert that `array` has the axes in the suffix of `name`, with the sizes that are given.

    Args:
        name: The array's name; the letters after its last underscore are its axes, e.g. `x_BTC`.
        array: The array.
        **sizes: Expected size of an axis, by letter; axes without one may have any size.

    Raises:
        ContractError: naming the array, the expected and the actual shape.

    Example:
        >>> check_shape("x_BTC", jnp.zeros((2, 3, 4)), C=4)
        >>> check_shape("x_BTC", jnp.zeros((2, 3, 4)), C=8)
        Traceback (most recent call last):
        jaxgpt.ops.contracts.ContractError: x_BTC: expected shape [B, T, C=8], got [2, 3, 4]
    """
    axes = name.rsplit("_", 1)[1]
    wanted = ", ".join(f"{axis}={sizes[axis]}" if axis in sizes else axis for axis in axes)
    try:
        chex.assert_shape(array, tuple(sizes.get(axis) for axis in axes))
    except AssertionError:
        message = f"{name}: expected shape [{wanted}], got {list(jnp.shape(array))}"
        raise ContractError(message) from None


def check_floating(name: str, array: chex.Array) -> None:
    """Assert that `array` holds floating-point numbers."""
    if not jnp.issubdtype(jnp.result_type(array), jnp.floating):
        raise ContractError(f"{name}: expected floating-point numbers, got {jnp.result_type(array)}")


def check_token_ids(name: str, ids: chex.Array) -> None:
    """Assert that `ids` is a batch of sequences of whole numbers, [B,T]."""
    if not hasattr(ids, "dtype"):
        raise ContractError(f"{name}: expected an array of token ids, got {type(ids).__name__}; use np.array(ids)")
    if not jnp.issubdtype(ids.dtype, jnp.integer):
        raise ContractError(
            f"{name}: expected token ids as integers, got {ids.dtype}; encode the text with the "
            "model's tokenizer, or convert with .astype(int)"
        )
    if jnp.ndim(ids) != 2:
        raise ContractError(
            f"{name}: expected token ids of shape [B, T], got {list(jnp.shape(ids))}; "
            "a single sequence becomes a batch of one with ids[None, :]"
        )
