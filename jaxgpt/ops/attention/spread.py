"""Kernels on many devices: each device runs the kernel on rows and heads of its own.

Attention mixes neither rows nor heads, so a kernel that the compiler cannot divide (a loop over heads, a Pallas call)
is divided here, by `jax.shard_map` over the mesh that `jax.set_mesh` put in place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import jax
from jax.sharding import AxisType, PartitionSpec

from .call import Settings
from .masks import Mask

# Mesh axes, by name, that divide rows, and those that divide heads; over any other, every device does the same.
_ROW_AXES = ("data", "fsdp")
_HEAD_AXES = ("tensor",)

Run = Callable[[jax.Array, jax.Array, jax.Array, Mask, Settings], jax.Array]


class Division(NamedTuple):
    """How the mesh in place divides a call.

    Attributes:
        rows, heads: Mesh axes that divide them; None where none does.
        free: All axes of the Auto type.
        explicit: Whether there is one of the Explicit type.
    """

    rows: tuple[str, ...] | None
    heads: tuple[str, ...] | None
    free: frozenset[str]
    explicit: bool


def division(B: int, K: int) -> Division:
    """Return how the mesh in place divides B rows and K key heads.

    Rows that the devices of the row axes do not divide evenly stay whole on each of them, and likewise heads.
    """
    mesh = jax.sharding.get_abstract_mesh()
    free = {
        name: mesh.shape[name]
        for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True)
        if kind == AxisType.Auto
    }
    explicit = AxisType.Explicit in mesh.axis_types
    return Division(_dividing(_ROW_AXES, free, B), _dividing(_HEAD_AXES, free, K), frozenset(free), explicit)


def spread(
    run: Run, q_BTHD: jax.Array, k_BSKD: jax.Array, v_BSKD: jax.Array, fitted: Mask, settings: Settings
) -> jax.Array:
    """Return `run` of the arguments, on each device its own part by `division`; without a mesh it is `run`."""
    rows, heads, free, _ = division(q_BTHD.shape[0], k_BSKD.shape[2])
    if not rows and not heads:
        return run(q_BTHD, k_BSKD, v_BSKD, fitted, settings)
    heads_spec, mask_spec = PartitionSpec(rows, None, heads, None), PartitionSpec(rows)
    local = jax.shard_map(
        functools.partial(run, settings=settings),
        in_specs=(heads_spec, heads_spec, heads_spec, mask_spec),
        out_specs=heads_spec,
        axis_names=free,
        check_vma=False,  # Pallas calls and loops say nothing about which devices hold the same values
    )
    return local(q_BTHD, k_BSKD, v_BSKD, fitted)


def _dividing(names: Iterable[str], free: Mapping[str, int], count: int) -> tuple[str, ...] | None:
    """Return the mesh axes, of those named, whose devices together divide `count` evenly; None if there are none."""
    taken: list[str] = []
    for name in names:
        if free.get(name, 1) > 1 and count % free[name] == 0:
            taken.append(name)
            count //= free[name]
    return tuple(taken) or None
