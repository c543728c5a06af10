"""Parameters laid out for generation: the same numbers, each matrix as a few rows at a time read it fastest."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import jax

from jaxgpt.config import ExecutionConfig, ModelConfig, RequestError
from jaxgpt.ops.linear import ServingKernel

from .parameters import check_parameters
from .specs import ParamSpec, SpecTree, parameter_specs


@dataclasses.dataclass(frozen=True)
class Prepared:
    """Parameters that `prepare` laid out; `generate` takes them in place of the tree they were made from.

    Attributes:
        config: The architecture that they are of.
        tree: The parameters; `prepare` makes every kernel a `ServingKernel`, and the model takes plain arrays too.
    """

    config: ModelConfig
    tree: dict[str, Any]


jax.tree_util.register_dataclass(Prepared, data_fields=["tree"], meta_fields=["config"])


def prepare(
    config: ModelConfig, params: Mapping[str, Any] | Prepared, *, execution: ExecutionConfig | None = None
) -> Prepared:
    """Return the parameters as generation reads them: every kernel [out, in], as a tied head's embedding is already.

    It costs a pass over the parameters and, while the tree it was made from is held as well, their memory again; do
    it once before many calls of `generate`, which otherwise does it in each.

    Args:
        config: The architecture.
        params: The tree that `init` gives. What was prepared already is returned as it is.
        execution: How the model will run: matrices are kept in the number format it computes in.

    Raises:
        RequestError: parameters of another architecture.

    Example:
        >>> config = jaxgpt.ModelConfig.preset("minigpt")
        >>> ready = prepare(config, jaxgpt.init(config, key=jax.random.key(0)))
        >>> jaxgpt.generate(config, ready, [[0]], max_new_tokens=1, temperature=0, key=jax.random.key(0)).ids[0][:1]
        [0]
    """
    if isinstance(params, Prepared):
        if params.config != config:
            raise RequestError("params were prepared for another architecture; prepare those of this one")
        return params
    check_parameters(config, params)
    return Prepared(config, _laid_out(config, (execution or ExecutionConfig()).compute_dtype, params))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _laid_out(config: ModelConfig, dtype: str, params: Mapping[str, Any]) -> dict[str, Any]:
    def tree(specs: SpecTree, params: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: leaf(name, entry, params[name]) if isinstance(entry, ParamSpec) else tree(entry, params[name])
            for name, entry in specs.items()
        }

    def leaf(name: str, spec: ParamSpec, array: jax.Array) -> jax.Array | ServingKernel:
        if name != "kernel":
            return array
        inputs = math.prod(spec.shape[: 2 if spec.axes == "HDC" else 1])
        return ServingKernel(array.reshape(inputs, -1).T.astype(dtype), spec.shape)

    return tree(parameter_specs(config), params)
