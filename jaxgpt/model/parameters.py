"""Parameter trees made from their specs, and the check that a tree fits an architecture."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from jaxgpt.config import ModelConfig, RequestError, some
from jaxgpt.ops.contracts import ContractError

from .specs import ParamSpec, SpecTree, parameter_specs, walk

Params = dict[str, Any]


def map_specs(function: Any, specs: SpecTree, prefix: str = "") -> Params:
    """Return the tree of `function(path, spec)`."""
    return {
        name: function(prefix + name, entry)
        if isinstance(entry, ParamSpec)
        else map_specs(function, entry, f"{prefix}{name}/")
        for name, entry in specs.items()
    }


def path_number(path: str) -> int:
    """Return a 32-bit number that depends on the path alone (Python's own hash changes with every process)."""
    return int.from_bytes(hashlib.sha256(path.encode()).digest()[:4], "big")


def draw(spec: ParamSpec, key: jax.Array) -> jax.Array:
    """Return a starting value, float32."""
    if spec.init.std == 0:
        return jnp.full(spec.shape, spec.init.mean, jnp.float32)
    flat = jax.random.normal(key, (spec.size,), jnp.float32)  # the same values, compiled faster than in their shape
    return spec.init.mean + spec.init.std * flat.reshape(spec.shape)


def init(config: ModelConfig, *, key: jax.Array) -> Params:
    """Return freshly drawn parameters as a plain nested dict of float32 arrays.

    Each parameter's key is folded from its path, so adding one parameter shifts no other. Matrices and embeddings
    are normal with standard deviation 0.02, the projections onto the residual stream 0.02/sqrt(2 L), biases 0,
    norm scales 1.

    Args:
        config: The architecture; its vocab_size must be set.
        key: A PRNG key.

    Example:
        >>> params = init(ModelConfig.preset("minigpt"), key=jax.random.key(0))
        >>> sum(x.size for x in jax.tree.leaves(params))
        541
    """
    return map_specs(
        lambda path, spec: draw(spec, jax.random.fold_in(key, path_number(path))), parameter_specs(config)
    )


def abstract_parameters(config: ModelConfig) -> Params:
    """Return the tree of shapes and dtypes that `init` would give, without allocating anything."""
    return map_specs(lambda _, spec: jax.ShapeDtypeStruct(spec.shape, jnp.float32), parameter_specs(config))


def decay_mask(config: ModelConfig) -> Params:
    """Return the tree that says which parameters weight decay applies to."""
    return map_specs(lambda _, spec: spec.decay, parameter_specs(config))


def _leaf_shapes(tree: Mapping[str, Any], prefix: str = "") -> dict[str, tuple[int, ...]]:
    shapes = {}
    for name, entry in tree.items():
        if isinstance(entry, Mapping):
            shapes |= _leaf_shapes(entry, f"{prefix}{name}/")
        else:
            shapes[prefix + name] = jnp.shape(entry)
    return shapes


def check_parameters(config: ModelConfig, params: Mapping[str, Any]) -> None:
    """Refuse a tree that is not the one `config` describes.

    Raises:
        ContractError: listing what is missing, surplus or of another shape.
    """
    if not isinstance(params, Mapping):
        raise RequestError(f"params: expected a nested dict of arrays, got {type(params).__name__}")
    wanted = {path: spec.shape for path, spec in walk(parameter_specs(config))}
    got = _leaf_shapes(params)
    if wanted == got:
        return
    faults = [f"missing {path} {list(shape)}" for path, shape in wanted.items() if path not in got]
    faults += [f"surplus {path} {list(shape)}" for path, shape in got.items() if path not in wanted]
    faults += [
        f"{path} is {list(got[path])}, expected {list(shape)}"
        for path, shape in wanted.items()
        if path in got and got[path] != shape
    ]
    raise ContractError(f"the parameters do not fit the architecture: {some(faults, most=6, joint='; ')}")
