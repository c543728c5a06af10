"""`CheckpointStore`: checkpoints whose every array is hashed when written and checked when read."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np
import orbax.checkpoint as ocp

from jaxgpt.config import RequestError, WorkError

from .access import obstacle
from .files import check_still_there
from .orbax_handlers import handler_registry
from .quiet import quiet_orbax
from .record import DamagedError, check_arrays, check_record, make_record, recorded_signatures
from .trees import differences, named_leaves, nested, signatures

PyTree = Any
RECORD = "record"  # the item that holds the hashes; Orbax commits it together with the arrays
_UNFINISHED = ".orbax-checkpoint-tmp"  # how Orbax's folders end until they are renamed to their step


@dataclasses.dataclass(frozen=True)
class Restored:
    """A checkpoint that passed its check: its step, and its items shaped as the templates."""

    step: int
    items: dict[str, PyTree]


class CheckpointStore:
    """The checkpoints of one run, written by Orbax in the background, each in one atomic commit.

    Orbax alone restores a flipped bit as if it were the weights. Here each checkpoint carries the sha256 of
    every array; what does not match is reported, and moved aside once the checkpoint before it has taken its place.

    Args:
        directory: the folder of checkpoints, one sub-folder per step; damaged ones go to its sibling `damaged`.
        keep: how many to keep on disk, the newest; None keeps all.
        writable: False for a reader, which neither writes, moves nor deletes anything.

    Example:
        >>> import tempfile
        >>> import jax.numpy as jnp
        >>> with (
        ...     tempfile.TemporaryDirectory() as folder,
        ...     CheckpointStore(Path(folder) / "checkpoints", keep=2) as store,
        ... ):
        ...     store.save(10, {"params": {"scale": jnp.ones(3)}})
        ...     like = {"params": {"scale": jax.ShapeDtypeStruct((3,), "float32")}}
        ...     restored = store.restore(like, warn=print)
        >>> restored.step, restored.items["params"]["scale"]
        (10, Array([1., 1., 1.], dtype=float32))
    """

    def __init__(self, directory: Path, *, keep: int | None = None, writable: bool = True) -> None:
        self._directory = directory.absolute()  # Orbax refuses relative paths
        self._writable = writable
        self._in_flight: int | None = None
        self._closing = contextlib.ExitStack()
        self._closing.enter_context(quiet_orbax())
        options = ocp.CheckpointManagerOptions(
            max_to_keep=keep if writable else None,
            create=writable,
            read_only=not writable,
            save_interval_steps=1 if writable else 0,
        )
        self._manager = ocp.CheckpointManager(self._directory, options=options, handler_registry=handler_registry())
        self._closing.callback(self._manager.close)

    def save(self, step: int, items: Mapping[str, PyTree], *, loss: float | None = None) -> None:
        """Start writing `items` as the checkpoint of `step`; the arrays may be donated once this returns.

        Args:
            step: optimizer steps done.
            items: `{name: pytree of arrays}`; each name can be restored without the others.

        Raises:
            WorkError: that step is there already, the folder is gone, or this save, or the one before it, could
                not be written.
        """
        self.wait()
        check_still_there(self._directory)
        if step in self.steps():
            raise WorkError(
                f"checkpoint {step} is already in {self._directory}, and none is overwritten; continue the run "
                "from it, or save into another folder"
            )
        host = {name: _on_host(tree) for name, tree in items.items()}
        arguments: dict[str, Any] = {
            name: ocp.args.PyTreeSave(nested(arrays)) for name, arrays in host.items() if arrays
        }
        arguments[RECORD] = ocp.args.JsonSave(make_record(step, host, loss))
        self._in_flight = step
        with self._writing():
            self._manager.save(step, args=ocp.args.Composite(**arguments), force=True)

    def wait(self) -> None:
        """Return once the save in flight is committed.

        Raises:
            WorkError: it could not be written; the checkpoints before it are untouched.
        """
        with self._writing():
            self._manager.wait_until_finished()

    def steps(self) -> list[int]:
        """Return the steps of the committed checkpoints, ascending; none of them has been checked."""
        return saved_steps(self._directory)

    def restore(self, templates: Mapping[str, PyTree], *, warn: Callable[[str], Any]) -> Restored:
        """Return the newest checkpoint that passes its check.

        Damaged newer ones are moved aside, but only once an older one has been restored: where none passes, all
        stay where they are.

        Args:
            templates: `{item: pytree}` of arrays or `jax.ShapeDtypeStruct`; only these items are read. A NumPy
                template gives a NumPy array back, any other a JAX array with the template's sharding.
            warn: called with one message for each checkpoint that is skipped, or write that was never
                finished.

        Raises:
            RequestError: a sound checkpoint of another structure (nothing is moved).
            WorkError: there is no checkpoint, none passes its check, or this process may not read one.
        """
        self.wait()
        if self._writable:
            self._remove_unfinished(warn)
        damages: dict[int, str] = {}
        for step in reversed(self.steps()):
            try:
                restored = self._read(step, templates)
            except DamagedError as damage:
                damages[step] = str(damage)
            else:
                self._skip(damages, warn)
                return restored
        raise WorkError(
            f"no usable checkpoint in {self._directory}: {_in_words(damages) or 'nothing was saved there yet'}; "
            "start the run again in a new folder, or put a good copy back"
        )

    def verify(self, step: int) -> None:
        """Read every array of a checkpoint and compare it with its hash.

        Raises:
            DamagedError: it is not what was written.
            WorkError: this process may not read it.
        """
        record = self._read_record(step)
        check_arrays(record, self._read_arrays(step, record, record["items"]))

    def close(self) -> None:
        """Wait for the save in flight and release Orbax's threads.

        Raises:
            WorkError: the save in flight could not be written.
        """
        with self._closing:
            self.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn whatever Orbax raises into one message, and forget the failed step."""
        try:
            yield
        except Exception as error:
            # Its leftover would keep a full disk full.
            shutil.rmtree(self._directory / f"{self._in_flight}{_UNFINISHED}", ignore_errors=True)
            self._manager.reload()
            raise WorkError(
                f"checkpoint {self._in_flight} was not written to {self._directory}: {_one_line(error)}; "
                "earlier checkpoints are untouched: free space or fix the folder, then continue the run"
            ) from error

    def _read(self, step: int, templates: Mapping[str, PyTree]) -> Restored:
        """Read, compare with the templates, verify, and only then place on devices."""
        record = self._read_record(step)
        self._check_structure(step, record, templates)
        arrays = self._read_arrays(step, record, templates)
        check_arrays(record, arrays)
        items = {name: _placed(arrays[name], template) for name, template in templates.items()}
        return Restored(step, items)

    def _read_record(self, step: int) -> dict[str, Any]:
        record = self._orbax_restore(step, {RECORD: ocp.args.JsonRestore()})[RECORD]
        check_record(record, step)
        return record

    def _check_structure(self, step: int, record: Mapping[str, Any], templates: Mapping[str, PyTree]) -> None:
        for item, template in templates.items():
            if item not in record["items"]:
                raise RequestError(
                    f"checkpoint {step} in {self._directory} holds {', '.join(record['items'])}, no '{item}'"
                )
            wrong = differences(recorded_signatures(record, item), signatures(named_leaves(template)))
            if wrong:
                raise RequestError(
                    f"checkpoint {step} in {self._directory} is sound but of another structure: in {item}, "
                    f"{wrong}; use the config it was saved with"
                )

    def _read_arrays(
        self, step: int, record: Mapping[str, Any], names: Mapping[str, Any]
    ) -> dict[str, dict[str, np.ndarray]]:
        """Read the named items to the host, as Orbax gives them."""
        host = ocp.RestoreArgs(restore_type=np.ndarray)
        paths = {name: record["items"][name] for name in names}
        arguments = {
            name: ocp.args.PyTreeRestore(restore_args=nested(dict.fromkeys(entries, host)))
            for name, entries in paths.items()
            if entries
        }
        restored = self._orbax_restore(step, arguments)
        return {name: named_leaves(restored[name]) if paths[name] else {} for name in names}

    def _orbax_restore(self, step: int, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Damaged bytes reach Orbax's and TensorStore's parsers, which raise almost anything."""
        try:
            return self._manager.restore(step, args=ocp.args.Composite(**arguments))
        except Exception as error:
            reason = obstacle(error, self._directory / str(step))
            if reason is not None:
                raise WorkError(
                    f"cannot read checkpoint {step} in {self._directory}: {reason}; nothing was moved: give this "
                    "process the access, memory or open files that it lacks, then try again"
                ) from error
            what = ", ".join(arguments)
            raise DamagedError(f"cannot read its {what} ({type(error).__name__}: {_one_line(error)})") from error

    def _skip(self, damages: Mapping[int, str], warn: Callable[[str], Any]) -> None:
        for step, reason in damages.items():
            message = f"checkpoint {step} is damaged and was skipped: {reason}"
            if self._writable:
                message += f"; it was moved to {self._move_aside(step)}"
            warn(message)

    def _move_aside(self, step: int) -> Path:
        """Move a checkpoint to the sibling folder `damaged`; its place is then free for a new save."""
        folder = self._directory.parent / "damaged"
        folder.mkdir(exist_ok=True)
        target, number = folder / str(step), 2
        while target.exists():
            target, number = folder / f"{step}-{number}", number + 1
        os.rename(self._directory / str(step), target)
        self._manager.reload()
        return target

    def _remove_unfinished(self, warn: Callable[[str], Any]) -> None:
        """Delete the temporary folders of writers that were killed; they were never checkpoints."""
        for folder in sorted(self._directory.glob(f"*{_UNFINISHED}*")):
            shutil.rmtree(folder)
            warn(f"checkpoint {folder.name.split('.')[0]} was never finished; its leftover was removed")


def saved_steps(directory: Path) -> list[int]:
    """Return the steps of the committed checkpoints in a folder, ascending; none of them has been checked."""
    if not directory.is_dir():
        return []
    names = [entry.name for entry in directory.iterdir() if entry.is_dir()]
    return sorted(int(name) for name in names if name.isdecimal())


def _in_words(damages: Mapping[int, str]) -> str:
    return "; ".join(f"checkpoint {step} is damaged: {reason}" for step, reason in damages.items())


def _on_host(tree: PyTree) -> dict[str, np.ndarray]:
    """Return `{path: NumPy array}`; one transfer serves both the hashes and the file."""
    return {path: np.asarray(leaf) for path, leaf in jax.device_get(named_leaves(tree)).items()}


def _placed(arrays: Mapping[str, np.ndarray], template: PyTree) -> PyTree:
    """Return host arrays in the template's structure, each of its leaf's kind and sharding."""
    leaves = [_placed_leaf(path, arrays[path], leaf) for path, leaf in named_leaves(template).items()]
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(template), leaves)


def _placed_leaf(path: str, array: np.ndarray, template: Any) -> Any:
    if isinstance(template, np.ndarray | np.generic):
        return array
    # An uncommitted template stays uncommitted: jit would otherwise compile once more after a resume.
    committed = getattr(template, "committed", True)
    placed = jax.device_put(array, template.sharding if committed else None)
    if placed.dtype != array.dtype:  # JAX narrows 64-bit numbers without a word
        raise RequestError(f"{path} is {array.dtype}; give a NumPy template, or set JAX_ENABLE_X64=1")
    return placed


def _one_line(error: Exception) -> str:
    """Return the first line of an error's text; of a long one the two ends, as TensorStore's end in the cause."""
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return line if len(line) <= 300 else f"{line[:100]} ... {line[-195:]}"
