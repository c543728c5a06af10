"""Matrix products with parameters: a product accumulates in float32 and comes back in the input's dtype."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from .contracts import ContractError

# Up to here a product takes the time of reading its matrix, and it pays to have the matrix on the left.
_FEW_ROWS = 16


@dataclasses.dataclass(frozen=True)
class ServingKernel:
    """A kernel as generation wants it: [out, in], each output's weights side by side.

    Attributes:
        matrix_OI: The kernel, transposed, its input axes made one and its output axes made one.
        shape: Of the kernel it was made from.
    """

    matrix_OI: jax.Array
    shape: tuple[int, ...]


jax.tree_util.register_dataclass(ServingKernel, data_fields=["matrix_OI"], meta_fields=["shape"])


def scores(x: jax.Array, matrix_OI: jax.Array) -> jax.Array:
    """Return x W^T, [...,I] -> [...,O] in float32, for a matrix that holds one output per row.

    For a few rows of x it is (W x^T)^T: XLA then reads W once, at the speed of memory, where it would otherwise run a
    product meant for large matrices (bench/NOTES.md). The barrier keeps it from folding the transpose back.
    """
    x_MI = x.reshape(-1, x.shape[-1])
    if x_MI.shape[0] > _FEW_ROWS:
        return _dot(x, matrix_OI.astype(x.dtype))
    y_OM = _dot(matrix_OI.astype(x.dtype), x_MI)
    return jax.lax.optimization_barrier(y_OM).T.reshape(*x.shape[:-1], -1)


def product(x: jax.Array, kernel: jax.Array | ServingKernel, *, contract: int = 1) -> jax.Array:
    """Return x @ kernel in float32, contracting the last `contract` axes of x with the first of the kernel."""
    if isinstance(kernel, ServingKernel):
        kept, inputs = x.shape[:-contract], kernel.matrix_OI.shape[1]
        return scores(x.reshape(*kept, inputs), kernel.matrix_OI).reshape(*kept, *kernel.shape[contract:])
    return jnp.tensordot(x, kernel.astype(x.dtype), axes=contract, preferred_element_type=jnp.float32)


def _dot(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return the product over the last axis of both, in float32."""
    return jnp.tensordot(a, b, axes=(-1, -1), preferred_element_type=jnp.float32)


def linear(x: jax.Array, params: Mapping[str, jax.Array], *, contract: int = 1) -> jax.Array:
    """Return x @ kernel (+ bias), contracting the last `contract` axes of x with the first of the kernel.

    Args:
        x: [..., *in]
        params: `kernel` [*in, *out], an array or a `ServingKernel`, and `bias` [*out] where the architecture has one.
        contract: How many axes `in` has; 2 for the output projection, whose kernel is [H,D,C].

    Raises:
        RequestError: axes that do not fit, or a bias of another shape than the output (it would be broadcast).

    Example:
        >>> x, kernel = jnp.ones((2, 3, 4)), jnp.ones((4, 2, 5))
        >>> linear(x, {"kernel": kernel}).shape
        (2, 3, 2, 5)
    """
    kernel = params["kernel"]
    if x.shape[-contract:] != kernel.shape[:contract]:
        raise ContractError(
            f"linear: x is {list(x.shape)}, kernel is {list(kernel.shape)}; expected the last {contract} axes of x "
            f"to be the first {contract} of the kernel"
        )
    y = product(x, kernel, contract=contract)
    if "bias" in params:
        bias = params["bias"]
        if bias.shape != kernel.shape[contract:]:
            raise ContractError(f"linear: bias is {list(bias.shape)}, expected {list(kernel.shape[contract:])}")
        y = y + bias
    return y.astype(x.dtype)
