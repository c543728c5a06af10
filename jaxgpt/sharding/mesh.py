"""A mesh with a `data` axis: each device works on its share of the batch, parameters are on all of them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxgpt.config import RequestError


def largest_divisor(number: int, limit: int) -> int:
    """Return the largest divisor of `number` that is at most `limit`.

    >>> largest_divisor(12, 8)
    6
    """
    return max(n for n in range(1, min(number, limit) + 1) if number % n == 0)


def data_mesh(sequences: int, wanted: int = 0) -> Mesh:
    """Return the mesh that shares `sequences` rows of a micro-batch among devices.

    Args:
        sequences: Rows of one micro-batch.
        wanted: Number of devices; 0 takes the largest number at hand that divides `sequences`.

    Raises:
        RequestError: more devices wanted than there are.
    """
    devices = jax.devices()
    if wanted > len(devices):
        raise RequestError(
            f"mesh.data is {wanted}, but there are {len(devices)} {devices[0].platform} devices; "
            f"use at most {len(devices)}, or 0 to let it be chosen"
        )
    count = wanted or largest_divisor(sequences, len(devices))
    return Mesh(np.array(devices[:count]), ("data",))


def replicated(mesh: Mesh) -> NamedSharding:
    """Return the sharding of arrays that every device holds whole."""
    return NamedSharding(mesh, PartitionSpec())


def topology(mesh: Mesh) -> dict[str, Any]:
    """Return what a mesh consists of, in JSON's types: a run is bitwise repeatable on one topology only.

    Example:
        >>> sorted(topology(data_mesh(1)))
        ['count', 'kind', 'platform']
    """
    first = mesh.devices.flat[0]
    return {"count": mesh.size, "platform": first.platform, "kind": first.device_kind}


def split_rows(mesh: Mesh, *, axis: int = 0) -> NamedSharding:
    """Return the sharding of batches whose rows (axis `axis`) are divided among the devices."""
    return NamedSharding(mesh, PartitionSpec(*[None] * axis, "data"))


def place(tree: Any, sharding: NamedSharding) -> Any:
    """Put every array of a tree onto its devices."""
    return jax.device_put(tree, sharding)
