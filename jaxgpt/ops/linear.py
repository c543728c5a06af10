"""Matrix products with parameters: a product accumulates in float32 and comes back in the input's dtype."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp


def linear(x: jax.Array, params: Mapping[str, jax.Array], *, contract: int = 1) -> jax.Array:
    """Return x @ kernel (+ bias), contracting the last `contract` axes of x with the first of the kernel.

    Args:
        x: [..., *in]
        params: `kernel` [*in, *out], and `bias` [*out] where the architecture has one.
        contract: How many axes `in` has; 2 for the output projection, whose kernel is [H,D,C].

    Example:
        >>> x, kernel = jnp.ones((2, 3, 4)), jnp.ones((4, 2, 5))
        >>> linear(x, {"kernel": kernel}).shape
        (2, 3, 2, 5)
    """
    kernel = params["kernel"].astype(x.dtype)
    y = jnp.tensordot(x, kernel, axes=contract, preferred_element_type=jnp.float32)
    if "bias" in params:
        y = y + params["bias"]
    return y.astype(x.dtype)
