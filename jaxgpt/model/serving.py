"""Parameters laid out for generation: the same numbers, each matrix as a few rows at a time read it fastest."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import jax

from jaxgpt.config import ModelConfig, RequestError
from jaxgpt.ops.linear import ServingKernel

from .parameters import check_parameters
from .specs import ParamSpec, SpecTree, parameter_specs


@dataclasses.dataclass(frozen=True)
class Prepared:
    """Parameters that `prepare` laid out; `generate` takes them in place of the tree they were made from.

    Attributes:
        config: The architecture that they are of.
        tree: The parameters; every kernel is a `ServingKernel`.
    """

    config: ModelConfig
    tree: dict[str, Any]


jax.tree_util.register_dataclass(Prepared, data_fields=["tree"], meta_fields=["config"])


def prepare(config: ModelConfig, params: Mapping[str, Any] | Prepared) -> Prepared:
    """Return the parameters as generation reads them: every kernel [out, in], as a tied head's embedding is already.

    It costs a pass over the parameters and, while the tree it was made from is held as well, their memory again; do
    it once before many calls of `generate`, which otherwise does it in each.

    Args:
        config: The architecture.
        params: The tree that `init` gives. What was prepared already is returned as it is.

    Raises:
        RequestError: parameters of another architecture.

    Example:
        >>> config = jaxgpt.ModelConfig.preset("minigpt")
        >>> ready = prepare(config, jaxgpt.init(config, key=jax.random.key(0)))
        >>> jaxgpt.generate(config, ready, [[0]], max_new_tokens=1, temperature=0).ids[0][:1]
        [0]
    """
    if isinstance(params, Prepared):
        if params.config != config:
            raise RequestError("params were prepared for another architecture; prepare those of this one")
        return params
    check_parameters(config, params)
    return Prepared(config, _laid_out(config, params))


@functools.partial(jax.jit, static_argnums=0)
def _laid_out(config: ModelConfig, params: Mapping[str, Any]) -> dict[str, Any]:
    return _tree(parameter_specs(config), params)


def _tree(specs: SpecTree, params: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _leaf(name, entry, params[name]) if isinstance(entry, ParamSpec) else _tree(entry, params[name])
        for name, entry in specs.items()
    }


def _leaf(name: str, spec: ParamSpec, array: jax.Array) -> jax.Array | ServingKernel:
    if name != "kernel":
        return array
    inputs = 2 if spec.axes == "HDC" else 1
    size = math.prod(spec.shape[:inputs])
    return ServingKernel(array.reshape(size, -1).T, spec.shape)
