"""Matrix products with parameters: a product accumulates in float32 and comes back in the input's dtype."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from .contracts import ContractError


def linear(x: jax.Array, params: Mapping[str, jax.Array], *, contract: int = 1) -> jax.Array:
    """Return x @ kernel (+ bias), contracting the last `contract` axes of x with the first of the kernel.

    Args:
        x: [..., *in]
        params: `kernel` [*in, *out], and `bias` [*out] where the architecture has one.
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
    y = jnp.tensordot(x, kernel.astype(x.dtype), axes=contract, preferred_element_type=jnp.float32)
    if "bias" in params:
        bias = params["bias"]
        if bias.shape != kernel.shape[contract:]:
            raise ContractError(f"linear: bias is {list(bias.shape)}, expected {list(kernel.shape[contract:])}")
        y = y + bias
    return y.astype(x.dtype)
