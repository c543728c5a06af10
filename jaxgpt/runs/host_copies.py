"""Arrays on their way from devices to the host's memory, where they are hashed and written, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxgpt.config import RequestError

from .trees import named_leaves


def on_host(tree: Any) -> dict[str, np.ndarray]:
    """Return `{path: NumPy array}` that nobody else changes; one transfer serves both the hashes and the file."""
    leaves = named_leaves(tree)
    host = {path: np.asarray(array) for path, array in jax.device_get(leaves).items()}
    return {path: host[path] if _is_copied(leaf) else host[path].copy() for path, leaf in leaves.items()}


def _is_copied(leaf: Any) -> bool:
    """Return whether the host's array is a copy: from a CPU device it is the buffer that the next step is given."""
    return isinstance(leaf, jax.Array) and next(iter(leaf.devices())).platform != "cpu"


def placed(arrays: Mapping[str, np.ndarray], template: Any) -> Any:
    """Return host arrays in the template's structure, each of its leaf's kind and sharding."""
    leaves = [_placed_leaf(path, arrays[path], leaf) for path, leaf in named_leaves(template).items()]
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(template), leaves)


def _placed_leaf(path: str, array: np.ndarray, template: Any) -> Any:
    if isinstance(template, np.ndarray | np.generic):
        return array
    # An uncommitted template stays uncommitted: jit would otherwise compile once more after a resume.
    committed = getattr(template, "committed", True)
    on_devices = jax.device_put(array, template.sharding if committed else None)
    if on_devices.dtype != array.dtype:  # JAX narrows 64-bit numbers without a word
        raise RequestError(f"{path} is {array.dtype}; give a NumPy template, or set JAX_ENABLE_X64=1")
    return on_devices
