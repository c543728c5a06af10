"""`RunDirectory`: where a run's files lie, and the lock that keeps two processes from training into one."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Self, TextIO

from jaxgpt.config import RequestError, some

from .files import check_writable, is_leftover, remove_leftovers
from .manifest import FILE_NAME, Manifest

_LOCK_NAME = "lock"
_METRICS_NAME, _SAMPLES_NAME = "metrics.jsonl", "samples.jsonl"
_REPLACED = (FILE_NAME, _METRICS_NAME, _SAMPLES_NAME, "wandb-id.txt")  # written by way of a temporary file


@dataclasses.dataclass(frozen=True)
class RunDirectory:
    """A folder with a manifest, and the paths of what lies beside it.

    Example:
        >>> import tempfile
        >>> from jaxgpt.config import ModelConfig, RunConfig
        >>> manifest = Manifest(config=RunConfig(model=ModelConfig(vocab_size=65)))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = RunDirectory.create(Path(folder) / "first", manifest)
        ...     with run.lock():
        ...         RunDirectory.open(run.path).manifest.config.model.vocab_size
        65
    """

    path: Path
    manifest: Manifest

    @property
    def checkpoints_path(self) -> Path:
        """The folder of checkpoints, one sub-folder per step."""
        return self.path / "checkpoints"

    @property
    def metrics_path(self) -> Path:
        """The file of metrics, one JSON object per line."""
        return self.path / _METRICS_NAME

    @property
    def samples_path(self) -> Path:
        """The file of what the model wrote on the way, one JSON object per line."""
        return self.path / _SAMPLES_NAME

    @property
    def tensorboard_path(self) -> Path:
        """The folder of TensorBoard's event files."""
        return self.path / "tensorboard"

    @classmethod
    def create(cls, path: Path, manifest: Manifest) -> Self:
        """Make a run directory at `path`, which must not exist or be an empty folder.

        Raises:
            RequestError: something else lies there, another process makes a run there, or the folder cannot be
                written.
            WorkError: the manifest cannot be written.
        """
        run = cls(path, manifest)
        try:
            path.mkdir(parents=True, exist_ok=True)
            _refuse_contents(path)
            with run.lock():  # of two processes that both found the folder empty, one ends here
                _refuse_contents(path)
                manifest.write(path)
        except OSError as error:
            raise RequestError(
                f"cannot make a run directory at {path}: {error.strerror}; name another folder"
            ) from None
        return run

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read the run directory at `path`.

        Raises:
            RequestError: no such folder, a folder that is no run directory (the message names what it holds),
                or a manifest that `Manifest.read` refuses.
        """
        if not path.is_dir():
            kind = "is a file" if path.exists() else "does not exist"
            raise RequestError(f"{path} {kind}; expected a run directory, check the path")
        if not is_run(path):
            held = sorted(entry.name for entry in path.iterdir())
            raise RequestError(
                f"{path} is no run directory: it has no {FILE_NAME}, it holds {some(held)}; "
                "name a folder that a training run or jaxgpt.save wrote"
            )
        return cls(path, Manifest.read(path))

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run for this process; for as long as one trains into it, a second is refused.

        The kernel drops the lock when the process ends, however it ends, so the file that a killed process
        leaves behind blocks nobody. The number in the file only serves the message. What it left half written
        beside is removed.

        Raises:
            RequestError: another process holds it (with that process's id), or the folder cannot be written.
        """
        with contextlib.ExitStack() as held:
            try:
                for folder in filter(Path.is_dir, (self.path, self.checkpoints_path)):
                    check_writable(folder)
                file = held.enter_context((self.path / _LOCK_NAME).open("a+", encoding="utf-8"))
                _take(file)
                remove_leftovers(self.path, _REPLACED)
            except BlockingIOError:
                file.seek(0)
                raise RequestError(
                    f"process {file.read().strip() or '(starting)'} is training into {self.path}; "
                    "wait until it ends, stop it, or name another folder"
                ) from None
            except OSError as error:
                raise RequestError(
                    f"cannot write to {self.path}: {error.strerror}; make the folder writable, or name another"
                ) from None
            yield


def is_run(path: Path) -> bool:
    """Return whether `path` is a folder with a manifest (which may still be refused when read)."""
    return (path / FILE_NAME).is_file()


def fresh_run_path(root: Path, name: str) -> Path:
    """Make and return a new, empty folder `root/name-YYYYMMDD-HHMMSS`, with -2, -3, ... where that is taken.

    The folder is made here, so that two processes started in one second cannot be given the same one.

    Raises:
        RequestError: `root` cannot be written.
    """
    stem = f"{name}-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    number = 1
    while True:
        path = root / (stem if number == 1 else f"{stem}-{number}")
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            number += 1
        except OSError as error:
            raise RequestError(f"cannot make {path}: {error.strerror}; name a folder with --out") from None


def _take(file: TextIO) -> None:
    """Lock `file` and write this process's id into it; BlockingIOError where another process has it."""
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()


def _refuse_contents(path: Path) -> None:
    """Refuse a folder that holds anything but what a process leaves that is killed before it has made a run."""
    names = [entry.name for entry in path.iterdir()]
    held = sorted(name for name in names if name != _LOCK_NAME and not is_leftover(name, _REPLACED))
    if held:
        raise RequestError(f"{path} holds something else ({some(held)}); name a folder that is new or empty")
