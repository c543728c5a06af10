"""`MetricsLog`: one JSON line per logged step, and the same numbers as TensorBoard scalars."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from jaxgpt.config import RequestError, WorkError

from .directory import RunDirectory
from .files import check_still_there, write_atomically
from .tensorboard import EventFile

MEASURED: frozenset[str] = frozenset()  # the fields that a clock gave; comparisons of runs leave them out
_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class MetricsLog:
    """Appends to `metrics.jsonl` and `tensorboard/` of a run.

    JSON has no word for a number that is not finite; such a value is written as the text `"nan"`, `"inf"` or
    `"-inf"`, which `read_metrics` (and Python's `float`) turns back. TensorBoard has no place for it on a curve
    and is given the finite values only.

    Args:
        run: the run directory; one process at a time writes (hold its lock).

    Example:
        >>> import tempfile
        >>> from jaxgpt.config import ModelConfig, RunConfig
        >>> from jaxgpt.runs.manifest import Manifest
        >>> manifest = Manifest(config=RunConfig(model=ModelConfig(vocab_size=65)))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = RunDirectory.create(Path(folder) / "first", manifest)
        ...     with MetricsLog(run) as log:
        ...         log.write(10, {"loss": 4.17})
        ...         log.write(20, {"loss": float("inf")})
        ...         log.cut_back(10)
        ...         log.write(20, {"loss": 4.01})
        ...     read_metrics(run.metrics_path)
        [{'step': 10, 'loss': 4.17}, {'step': 20, 'loss': 4.01}]
    """

    def __init__(self, run: RunDirectory) -> None:
        self._path = run.metrics_path
        self._tensorboard_path = run.tensorboard_path
        self._file: Any = None
        self._events: EventFile | None = None
        self._purge_step: int | None = None

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """Log `numbers` (`{name: value}`) at `step`; both files have them on return.

        Raises:
            WorkError: a file cannot be written, as on a full disk, or the run directory is gone.
        """
        values = {name: float(value) for name, value in numbers.items()}
        check_still_there(self._path.parent)
        with self._writing():
            self._open()
            self._file.write(json.dumps({"step": step} | _as_json(values), allow_nan=False) + "\n")
            self._file.flush()
            self._events.write(step, {name: value for name, value in values.items() if math.isfinite(value)})

    def cut_back(self, step: int) -> None:
        """Forget what was logged after `step`, the checkpoint that training continues from.

        The file is replaced in one piece; a last line torn by a crash goes too. TensorBoard's files only
        grow: the next one opens with a mark that hides the later steps of the earlier ones.

        Raises:
            RequestError: a line before the last is no metrics line.
            WorkError: the file cannot be replaced.
        """
        self.close()
        self._purge_step = step + 1
        if self._path.exists():
            kept = [line for line in read_metrics(self._path) if line["step"] <= step]
            write_atomically(self._path, "".join(json.dumps(_as_json(line)) + "\n" for line in kept))

    def close(self) -> None:
        """Close both; a later `write` opens them again."""
        for file in (self._file, self._events):
            if file is not None:
                file.close()
        self._file = self._events = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        if self._file is None:
            self._file = self._path.open("a", encoding="utf-8")
            self._events = EventFile(self._tensorboard_path, purge_step=self._purge_step)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn what the disk refuses into one message, and give up the files with what they could not take."""
        try:
            yield
        except OSError as error:
            for file in (self._file, self._events):
                if file is not None:
                    with contextlib.suppress(OSError):  # closing tries once more to write what is left
                        file.close()
            self._file = self._events = None
            raise WorkError(
                f"cannot write {error.filename or self._path}: {error.strerror}; free space or make the folder "
                "writable, then continue the run"
            ) from None


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a `metrics.jsonl`, each with `"step"`.

    A last line without its newline is still being written, or was torn by a crash; it is left out.

    Raises:
        RequestError: the file is missing, or a whole line is no metrics line.
    """
    try:
        *lines, _torn = path.read_bytes().split(b"\n")
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror}; check the path") from None
    return [_parsed(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]


def _parsed(line: bytes, place: str) -> dict[str, Any]:
    try:
        values = json.loads(line)
        return {"step": int(values.pop("step"))} | {name: _WORDS.get(v, v) for name, v in values.items()}
    except (ValueError, AttributeError, KeyError, TypeError):
        raise RequestError(
            f"{place}: expected a JSON object with 'step' and numbers, got {line[:60]!r}; remove that line"
        ) from None


def _as_json(values: Mapping[str, float]) -> dict[str, float | str]:
    """Return the values with those that JSON cannot hold in words."""
    return {name: value if math.isfinite(value) else str(value) for name, value in values.items()}
