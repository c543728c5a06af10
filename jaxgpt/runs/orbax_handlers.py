"""The handlers through which Orbax writes and reads our items."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint.handlers import DefaultCheckpointHandlerRegistry, JsonCheckpointHandler


class SettlingNumpyHandler(ocp.type_handlers.NumpyHandler):
    """Orbax's own handler of NumPy arrays, but a failing read or write first lets the others end.

    Orbax gives up at the first array that fails and closes its event loop; each one still in flight then prints a
    traceback from TensorStore's threads. A damaged file and a full disk are ordinary events here.
    """

    async def deserialize(
        self, infos: Sequence[ocp.type_handlers.ParamInfo], args: Sequence[ocp.RestoreArgs] | None = None
    ) -> Sequence[np.ndarray]:
        read_one = super().deserialize
        each = args or [ocp.RestoreArgs()] * len(infos)
        arrays = await _settled([read_one([info], [arg]) for info, arg in zip(infos, each, strict=True)])
        return [array for (array,) in arrays]

    async def _background_serialize(
        self,
        values: Sequence[np.ndarray],
        infos: Sequence[ocp.type_handlers.ParamInfo],
        args: Sequence[ocp.SaveArgs] | None = None,
    ) -> None:
        """Orbax's `serialize` returns a future of this, which runs in a thread: hence this one, not that."""
        write_one = super()._background_serialize
        each = args or [ocp.SaveArgs()] * len(infos)
        await _settled(
            [write_one([value], [info], [arg]) for value, info, arg in zip(values, infos, each, strict=True)]
        )


async def _settled(operations: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Return the results of all, or raise the first error once all have ended."""
    outcomes = await asyncio.gather(*operations, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes


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
