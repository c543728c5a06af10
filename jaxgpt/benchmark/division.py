"""How the work is divided among devices: heads, or rows where the heads do not divide."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxgpt.model.parameters import Params, map_specs
from jaxgpt.model.specs import block_specs
from jaxgpt.sharding.mesh import largest_divisor

from .workload import Case, Subject, Workload

# A parameter is divided along the first of these axes that it has: heads, or the hidden features of the ffn.
_DIVIDED = "HKF"


@dataclasses.dataclass(frozen=True)
class Division:
    """A number of devices and what each has a share of.

    Attributes:
        devices: How many.
        over: "heads" or "rows"; None where one device has all.
    """

    devices: int = 1
    over: str | None = None

    def __str__(self) -> str:
        return "1 device" if self.over is None else f"{self.devices} devices, {self.over} divided"

    @property
    def mesh(self) -> Mesh | None:
        """A mesh with the axis by which the model divides heads (tensor) or rows (data); None on one device."""
        if self.over is None:
            return None
        return Mesh(np.array(jax.devices()[: self.devices]), ("tensor" if self.over == "heads" else "data",))

    @property
    def spec(self) -> PartitionSpec:
        """How an array [B,T,H,D] is divided."""
        return PartitionSpec(None, None, "tensor") if self.over == "heads" else PartitionSpec("data")

    def in_place(self) -> contextlib.AbstractContextManager:
        """Return the context in which programs are made: the mesh is the one in place."""
        mesh = self.mesh
        return contextlib.nullcontext() if mesh is None else jax.set_mesh(mesh)

    def placed(self, workload: Workload, subject: Subject, case: Case) -> tuple[tuple[Any, ...], Any]:
        """Return the case's arguments and d_out on the devices."""
        mesh = self.mesh
        if mesh is None:
            return jax.device_put((case.arguments, case.d_out), jax.devices()[0])
        if subject == "attention":
            return jax.device_put((case.arguments, case.d_out), NamedSharding(mesh, self.spec))
        rows = NamedSharding(mesh, PartitionSpec("data") if self.over == "rows" else PartitionSpec())
        x_BTC, params = case.arguments
        shardings = self._parameter_shardings(mesh, workload, subject)
        return (jax.device_put(x_BTC, rows), jax.device_put(params, shardings)), jax.device_put(case.d_out, rows)

    def _parameter_shardings(self, mesh: Mesh, workload: Workload, subject: Subject) -> Params:
        def sharding(_, spec):
            divided = next((axis for axis in _DIVIDED if axis in spec.axes), None) if self.over == "heads" else None
            return NamedSharding(mesh, PartitionSpec(*("tensor" if axis == divided else None for axis in spec.axes)))

        specs = block_specs(workload.config)
        return map_specs(sharding, specs if subject == "block" else specs["ffn"])


def divisions(workload: Workload, devices: str) -> list[Division]:
    """Return the divisions that are compared.

    Args:
        workload: Its key heads, or else its rows, are what is divided.
        devices: "one", "all" or "both". On accelerators one is all there is.

    Example:
        >>> from .workload import parse_shape
        >>> [str(division) for division in divisions(parse_shape("1x8x2x4"), "one")]
        ['1 device']
    """
    one, count = [Division()], len(jax.devices()) if jax.default_backend() == "cpu" else 1
    by_heads, by_rows = largest_divisor(workload.K, count), largest_divisor(workload.B, count)
    every = [Division(by_heads, "heads")] if by_heads > 1 else [Division(by_rows, "rows")] if by_rows > 1 else []
    return {"one": one, "all": every or one, "both": one + every}[devices]
