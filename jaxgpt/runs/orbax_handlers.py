"""The handlers through which Orbax writes and reads our items."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint.handlers import DefaultCheckpointHandlerRegistry, JsonCheckpointHandler


class SettlingNumpyHandler(ocp.type_handlers.NumpyHandler):
    """Orbax's own handler of NumPy arrays, but a failing read first lets the others end.

    Orbax gives up at the first array that cannot be read and closes its event loop; each read still in flight
    then prints a traceback from TensorStore's threads. A damaged file is an ordinary event here.
    """

    async def deserialize(
        self, infos: Sequence[ocp.type_handlers.ParamInfo], args: Sequence[ocp.RestoreArgs] | None = None
    ) -> Sequence[np.ndarray]:
        read_one = super().deserialize
        each = args or [ocp.RestoreArgs()] * len(infos)
        reads = [read_one([info], [arg]) for info, arg in zip(infos, each, strict=True)]
        outcomes = await asyncio.gather(*reads, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return [array for (array,) in outcomes]


def handler_registry() -> DefaultCheckpointHandlerRegistry:
    """Return Orbax's table of handlers: trees of NumPy arrays, and JSON objects."""
    types = ocp.type_handlers.create_type_handler_registry((np.ndarray, SettlingNumpyHandler()))
    arrays = ocp.PyTreeCheckpointHandler(type_handler_registry=types)
    json = JsonCheckpointHandler()
    registry = DefaultCheckpointHandlerRegistry()
    for args, handler in (
        (ocp.args.PyTreeSave, arrays),
        (ocp.args.PyTreeRestore, arrays),
        (ocp.args.JsonSave, json),
        (ocp.args.JsonRestore, json),
    ):
        registry.add(None, args, handler)
    return registry
