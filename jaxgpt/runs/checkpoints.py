"""`CheckpointStore`: checkpoints whose every array is hashed when written and checked when read."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import orbax.checkpoint as ocp

from jaxgpt.config import RequestError, WorkError

from .access import obstacle
from .files import HeldFolder
from .host_copies import on_host, placed
from .orbax_handlers import handler_registry
from .orbax_options import manager_options
from .quiet import quiet_orbax
from .record import DamagedError, best_step, check_arrays, check_record, make_record, recorded_signatures
from .step_folders import saved_steps
from .trees import differences, named_leaves, nested, signatures

PyTree = Any
Choice = Literal["last", "best"] | int  # the newest, that of the lowest validation loss, or that of a step
RECORD = "record"  # the item that holds the hashes; Orbax commits it together with the arrays
_UNFINISHED = ".orbax-checkpoint-tmp"  # how Orbax's folders end until they are renamed to their step


@dataclasses.dataclass(frozen=True)
class Restored:
    """A checkpoint that passed its check: its step, and its items shaped as the templates."""

    step: int
    items: dict[str, PyTree]


class CheckpointStore:
    """The checkpoints of one run, written by Orbax in a thread of its own, each in one atomic commit.

    Orbax alone restores a flipped bit as if it were the weights. Here each checkpoint carries the sha256 of
    every array; what does not match is reported, and moved aside once the checkpoint before it has taken its place.

    Args:
        directory: the folder of checkpoints, one sub-folder per step; damaged ones go to its sibling `damaged`.
        keep: how many to keep on disk, the newest; the one of the lowest validation loss is kept besides. None
            keeps all.
        writable: False for a reader, which neither writes, moves nor deletes anything.
        before_commit: called in the thread that writes, before each checkpoint counts; what it raises fails the
            save.

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

    def __init__(
        self,
        directory: Path,
        *,
        keep: int | None = None,
        writable: bool = True,
        before_commit: Callable[[], Any] = lambda: None,
    ) -> None:
        self._directory = directory.absolute()  # Orbax refuses relative paths
        self._keep, self._writable, self._before_commit = keep, writable, before_commit
        self._known_losses: dict[int, float] | None = None
        self._closing = contextlib.ExitStack()
        self._closing.enter_context(quiet_orbax())
        options = manager_options(keep=keep, writable=writable, losses=self.losses)
        self._manager = ocp.CheckpointManager(self._directory, options=options, handler_registry=handler_registry())
        self._closing.callback(self._manager.close)
        self._folder = HeldFolder(self._directory) if writable else None
        self._writer = self._closing.enter_context(ThreadPoolExecutor(1, thread_name_prefix="checkpoint"))
        self._saving: Future[None] | None = None

    def save(self, step: int, items: Mapping[str, PyTree], *, loss: float | None = None) -> None:
        """Start writing `items` as the checkpoint of `step`; the arrays may be donated once this returns.

        It waits for the save before, so that at most one copy of the arrays is held, and copies them to the host;
        hashing and writing are left to another thread.

        Args:
            step: optimizer steps done.
            items: `{name: pytree of arrays}`; each name can be restored without the others.
            loss: the validation loss at that step, by which the best is kept; None where it was not measured.

        Raises:
            WorkError: that step is there already, the folder is gone, or this save, or the one before it, could
                not be written.
        """
        self.wait()
        self._folder.check()
        if step in self.steps():
            raise WorkError(
                f"checkpoint {step} is already in {self._directory}, and none is overwritten; continue the run "
                "from it, or save into another folder"
            )
        host = {name: on_host(tree) for name, tree in items.items()}
        losses = self.losses()
        if loss is not None and math.isfinite(loss):
            losses[step] = loss
        self._saving = self._writer.submit(self._write, step, host, losses.get(step))

    def wait(self) -> None:
        """Return once the save in flight is committed.

        Raises:
            WorkError: it could not be written; the checkpoints before it are untouched.
        """
        if self._saving is None:
            return
        error = self._saving.exception()
        self._saving = None
        there = self.steps()
        self._known_losses = {step: loss for step, loss in self.losses().items() if step in there}
        if error is not None:
            raise error

    def losses(self) -> dict[int, float]:
        """Return {step: validation loss} of the checkpoints that have one, the one in flight included.

        What is not in a sound record counts for nothing; the arrays are not read.
        """
        if self._known_losses is None:
            self._known_losses, _ = self._recorded_losses()
        return self._known_losses

    def best(self) -> int | None:
        """Return the step of the lowest validation loss, None where no checkpoint has one."""
        return best_step(self.losses())

    def steps(self) -> list[int]:
        """Return the steps of the committed checkpoints, ascending; none of them has been checked."""
        return saved_steps(self._directory)

    def restore(
        self, templates: Mapping[str, PyTree], *, warn: Callable[[str], Any], choice: Choice = "last"
    ) -> Restored:
        """Return the newest checkpoint that passes its check, or the chosen one.

        Damaged newer ones are moved aside, but only once an older one has been restored: where none passes, all
        stay where they are.

        Args:
            templates: `{item: pytree}` of arrays or `jax.ShapeDtypeStruct`; only these items are read. A NumPy
                template gives a NumPy array back, any other a JAX array with the template's sharding.
            warn: called with one message for each checkpoint that is skipped.
            choice: "last", the newest; "best", the one of the lowest validation loss; or a step. Where the best
                is damaged, the next best takes its place; a step is used or refused.

        Raises:
            RequestError: a sound checkpoint of another structure (nothing is moved), a step that is not there,
                or the best where no checkpoint has a validation loss.
            WorkError: there is no checkpoint, none passes its check, or this process may not read one.
        """
        self.wait()
        steps, damages = self._candidates(choice)
        for step in steps:
            try:
                restored = self._read(step, templates)
            except DamagedError as damage:
                damages[step] = str(damage)
            else:
                self._skip(damages, warn)
                self._delete_surplus()
                return restored
        raise WorkError(
            f"no usable checkpoint in {self._directory}: {_in_words(damages) or 'nothing was saved there yet'}; "
            f"{_advice(choice)}, or put a good copy back"
        )

    def remove_unfinished(self, warn: Callable[[str], Any]) -> None:
        """Delete what killed processes left of saves that were never finished, and so never were checkpoints.

        Args:
            warn: called with one message for each.
        """
        for folder in sorted(self._directory.glob(f"*{_UNFINISHED}*")):
            shutil.rmtree(folder)
            warn(f"checkpoint {folder.name.split('.')[0]} was never finished; its leftover was removed")

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

    def _write(self, step: int, host: Mapping[str, Mapping[str, np.ndarray]], loss: float | None) -> None:
        """Hash and write; turn whatever Orbax raises into one message, and forget the failed step."""
        try:
            arguments: dict[str, Any] = {
                name: ocp.args.PyTreeSave(nested(arrays)) for name, arrays in host.items() if arrays
            }
            arguments[RECORD] = ocp.args.JsonSave(make_record(step, host, loss))
            self._before_commit()
            self._manager.save(step, args=ocp.args.Composite(**arguments), force=True)
            self._folder.check()  # Orbax makes what is missing
        except Exception as error:
            if not self._folder.is_there():
                self._remove_made_anew(step)
                self._folder.check()
            # Its leftover would keep a full disk full.
            shutil.rmtree(self._directory / f"{step}{_UNFINISHED}", ignore_errors=True)
            self._manager.reload()
            raise WorkError(
                f"checkpoint {step} was not written to {self._directory}: {_one_line(error)}; "
                "earlier checkpoints are untouched: free space or fix the folder"
            ) from error

    def _remove_made_anew(self, step: int) -> None:
        """Delete what a save has written to where the folder was, and no more."""
        for name in (f"{step}{_UNFINISHED}", str(step)):
            shutil.rmtree(self._directory / name, ignore_errors=True)
        with contextlib.suppress(OSError):  # not empty, or not there
            self._directory.rmdir()
            self._directory.parent.rmdir()

    def _candidates(self, choice: Choice) -> tuple[Iterable[int], dict[int, str]]:
        """Return the steps to try, in order, and {step: reason} of those that damage has ruled out already."""
        steps = self.steps()
        if choice == "last":
            return reversed(steps), {}
        if choice == "best":
            losses, damages = self._recorded_losses()
            if steps and not losses and not damages:
                raise RequestError(
                    f"no checkpoint in {self._directory} has a validation loss to be the best by; take the last one, "
                    f"or one of the steps {_listed(steps)}"
                )
            return sorted(losses, key=lambda step: (losses[step], step)), damages
        if choice not in steps:
            held = _listed(steps) or "none"
            raise RequestError(
                f"there is no checkpoint {choice} in {self._directory}; name one that it holds: {held}"
            )
        return [choice], {}

    def _recorded_losses(self) -> tuple[dict[int, float], dict[int, str]]:
        """Return {step: validation loss} where the record has one, and {step: reason} where it is damaged."""
        losses, damages = {}, {}
        for step in self.steps():
            try:
                loss = self._read_record(step)["validation_loss"]
            except DamagedError as damage:
                damages[step] = str(damage)
            else:
                losses |= {} if loss is None else {step: loss}
        return losses, damages

    def _read(self, step: int, templates: Mapping[str, PyTree]) -> Restored:
        """Read, compare with the templates, verify, and only then place on devices."""
        record = self._read_record(step)
        self._check_structure(step, record, templates)
        arrays = self._read_arrays(step, record, templates)
        check_arrays(record, arrays)
        items = {name: placed(arrays[name], template) for name, template in templates.items()}
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
        self._known_losses = None
        return target

    def _delete_surplus(self) -> None:
        """Delete what a killed process had yet to delete, or had deleted half."""
        if self._writable and self._keep is not None:
            steps = self.steps()
            surplus = set(steps[: -self._keep]) - {self.best()}
            for step in surplus:
                shutil.rmtree(self._directory / str(step))
            if surplus:
                self._manager.reload()


def _in_words(damages: Mapping[int, str]) -> str:
    return "; ".join(f"checkpoint {step} is damaged: {reason}" for step, reason in damages.items())


def _listed(steps: Iterable[int]) -> str:
    return ", ".join(map(str, steps))


def _advice(choice: Choice) -> str:
    return "start the run again in a new folder" if choice == "last" else "take another checkpoint"


def _one_line(error: Exception) -> str:
    """Return the first line of an error's text, of TensorStore's the innermost clause; of a long one the two ends."""
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    line = re.sub(r"^[A-Z_]+: .*(?=Error )| \[tensorstore_spec='.*'\]", "", line)
    return line if len(line) <= 300 else f"{line[:100]} ... {line[-195:]}"
