"""What a run directory holds, read from its files alone: no array is loaded, and JAX is not needed."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxgpt.config import WorkError, differing, flatten
from jaxgpt.data.tokenizer import tokenizer_from_json

from .directory import RunDirectory
from .metrics import read_metrics
from .record import DamagedError, best_step, check_record
from .step_folders import saved_steps, unfinished_names


@dataclasses.dataclass(frozen=True)
class CheckpointFacts:
    """One committed checkpoint.

    Attributes:
        step: optimizer steps done.
        bytes: size of its files.
        damage: why it would be skipped, None where it is sound as far as was looked.
        hash: sha256 (hex) over its step and the hashes of all its arrays; equal ones are equal bit for bit.
        validation_loss: nats per token, None where it was not measured at that step.
        arrays: `{item/path: sha256}`.
    """

    step: int
    bytes: int
    damage: str | None
    hash: str | None = None
    validation_loss: float | None = None
    arrays: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Inspection:
    """What a run directory says about itself.

    Attributes:
        run: the directory and its manifest.
        checkpoints: the committed ones, ascending.
        set_aside: names in the folder of checkpoints that were found damaged and moved.
        unfinished: names of checkpoints whose writer was killed, or is at work.
        lines: the logged lines.
    """

    run: RunDirectory
    checkpoints: list[CheckpointFacts]
    set_aside: list[str]
    unfinished: list[str]
    lines: list[dict[str, Any]]

    @property
    def settings(self) -> dict[str, Any]:
        """Return `{name: value}` of the settings that differ from the defaults."""
        values = flatten(self.run.manifest.config)
        return {name: values[name] for name in differing(self.run.manifest.config)}

    @property
    def tokenizer(self) -> dict[str, Any] | None:
        """Return the tokenizer's kind, number of ids and fingerprint; None for a model saved without one."""
        return tokenizer_facts(self.run.manifest.tokenizer)

    @property
    def last(self) -> int | None:
        """Return the step of the newest checkpoint that is not known to be damaged."""
        return max((facts.step for facts in self.checkpoints if facts.damage is None), default=None)

    @property
    def best(self) -> int | None:
        """Return the step of the lowest validation loss among those that are not known to be damaged."""
        sound = [facts for facts in self.checkpoints if facts.damage is None]
        return best_step({facts.step: facts.validation_loss for facts in sound if facts.validation_loss is not None})

    def last_logged(self, name: str) -> tuple[int, float] | None:
        """Return (step, value) of the last line that has a number of that name."""
        found = [(line["step"], line[name]) for line in self.lines if name in line]
        return found[-1] if found else None


def inspect(path: Path) -> Inspection:
    """Read what a run directory says about itself.

    Args:
        path: a run directory, of a training run or written by `jaxgpt.save`.

    Raises:
        RequestError: no run directory, a manifest or a metrics line that is refused.

    Example:
        >>> import tempfile
        >>> from jaxgpt.config import ModelConfig
        >>> config = ModelConfig.preset("minigpt")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     jaxgpt.save(f"{folder}/mini", config, jaxgpt.init(config, key=jax.random.key(0)))
        ...     found = inspect(Path(folder) / "mini")
        >>> found.last, found.best, found.tokenizer, found.settings["model.width"]
        (0, None, None, 4)
    """
    run = RunDirectory.open(path)
    read = [_checkpoint(run.checkpoints_path / str(step)) for step in saved_steps(run.checkpoints_path)]
    return Inspection(
        run,
        _still_there(run, read),
        _names(run.path / "damaged"),
        unfinished_names(run.checkpoints_path),
        read_metrics(run.metrics_path) if run.metrics_path.exists() else [],
    )


def verify(inspection: Inspection) -> Inspection:
    """Return the inspection with every array read and compared with its hash (this imports JAX).

    Raises:
        WorkError: this process may not read a checkpoint.
    """
    from .checkpoints import CheckpointStore

    with CheckpointStore(inspection.run.checkpoints_path, writable=False) as store:
        verified = [_verified(store, facts) for facts in inspection.checkpoints]
    return dataclasses.replace(inspection, checkpoints=_still_there(inspection.run, verified))


def tokenizer_facts(record: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a tokenizer's kind, number of ids and fingerprint.

    >>> tokenizer_facts({"kind": "bytes"})["vocab_size"]
    256
    """
    if record is None:
        return None
    tokenizer = tokenizer_from_json(record)
    return {"kind": record["kind"], "vocab_size": tokenizer.vocab_size, "fingerprint": tokenizer.fingerprint()}


def _verified(store: Any, facts: CheckpointFacts) -> CheckpointFacts:
    if facts.damage is not None:
        return facts
    try:
        store.verify(facts.step)
    except DamagedError as damage:
        return dataclasses.replace(facts, damage=str(damage))
    return facts


def _still_there(run: RunDirectory, found: list[CheckpointFacts]) -> list[CheckpointFacts]:
    """Leave out what a run that is at work has deleted while it was read, which looks like damage."""
    there = saved_steps(run.checkpoints_path)
    return [facts for facts in found if facts.step in there]


def _checkpoint(folder: Path) -> CheckpointFacts:
    step, size = int(folder.name), _size(folder)
    try:
        record = _record(folder, step)
    except DamagedError as damage:
        return CheckpointFacts(step, size, str(damage))
    arrays = {
        f"{item}/{path}": entry["sha256"]
        for item, entries in record["items"].items()
        for path, entry in entries.items()
    }
    return CheckpointFacts(step, size, None, record["sha256"], record["validation_loss"], arrays)


def _record(folder: Path, step: int) -> dict[str, Any]:
    """Read a checkpoint's record from the file in which Orbax keeps it."""
    try:
        record = json.loads((folder / "record" / "metadata").read_text(encoding="utf-8"))
    except PermissionError as error:
        raise WorkError(f"cannot read {error.filename}: {error.strerror}; give this process the access") from None
    except (OSError, ValueError) as error:
        raise DamagedError(f"cannot read its record ({error})") from None
    check_record(record, step)
    return record


def _size(folder: Path) -> int:
    size = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                size += os.lstat(Path(root) / name).st_size
    return size


def _names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
