"""`MetricsLog`: one JSON line per logged step or sample, and the same for TensorBoard."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TextIO

from jaxgpt.config import RequestError, WorkError
from jaxgpt.data.disk import sync

from .directory import RunDirectory
from .files import HeldFolder, write_atomically
from .tensorboard import EventFile

# Fields that a clock gave: they differ between two runs whose numbers are bit for bit the same.
MEASURED = ("tokens_per_second", "mfu", "loader_share")

_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class MetricsLog:
    """Appends to `metrics.jsonl`, `samples.jsonl` and `tensorboard/` of a run.

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
        self._folder = HeldFolder(run.path)
        self._path, self._samples_path = run.metrics_path, run.samples_path
        self._tensorboard_path = run.tensorboard_path
        self._files: dict[Path, TextIO] = {}
        self._events: EventFile | None = None
        self._purge_step: int | None = None

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """Log `numbers` (`{name: value}`) at `step`; both files have them on return.

        Raises:
            WorkError: a file cannot be written, as on a full disk, or the run directory is gone.
        """
        values = {name: float(value) for name, value in numbers.items()}
        self._folder.check()
        with self._writing():
            self._append(self._path, {"step": step} | _as_json(values))
            self._opened_events().write(step, {name: value for name, value in values.items() if math.isfinite(value)})

    def write_sample(self, step: int, text: str) -> None:
        """Keep what the model wrote at `step`, in `samples.jsonl` as `{"step": step, "text": text}`.

        Raises:
            WorkError: a file cannot be written, as on a full disk.
        """
        self._folder.check()
        with self._writing():
            self._append(self._samples_path, {"step": step, "text": text})
            self._opened_events().write_text(step, "sample", text)

    def cut_back(self, step: int) -> None:
        """Forget what was logged after `step`, the checkpoint that training continues from.

        Each file is replaced in one piece; a last line torn by a crash goes too. TensorBoard's files only
        grow: the next one opens with a mark that hides the later steps of the earlier ones.

        Raises:
            RequestError: a line before the last is no metrics line.
            WorkError: a file cannot be replaced.
        """
        self.close()
        self._purge_step = step + 1
        if self._path.exists():
            _rewrite(self._path, [_as_json(line) for line in read_metrics(self._path) if line["step"] <= step])
        if self._samples_path.exists():
            kept = [sample for sample in read_samples(self._samples_path) if sample["step"] <= step]
            _rewrite(self._samples_path, kept)

    def sync(self) -> None:
        """Return once the lines written so far are on disk; any thread may call it.

        Raises:
            OSError: the disk refuses.
        """
        for path in filter(Path.exists, (self._path, self._samples_path)):
            sync(path)
            sync(path.parent)

    def close(self) -> None:
        """Close all; a later `write` opens them again."""
        for file in self._given_up():
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self, path: Path, line: Mapping[str, Any]) -> None:
        if path not in self._files:
            self._files[path] = path.open("a", encoding="utf-8")
        self._files[path].write(json.dumps(line, allow_nan=False) + "\n")
        self._files[path].flush()

    def _opened_events(self) -> EventFile:
        if self._events is None:
            self._events = EventFile(self._tensorboard_path, purge_step=self._purge_step)
        return self._events

    def _given_up(self) -> list[TextIO | EventFile]:
        """Return the files that were open; from here on none is."""
        files = [*self._files.values(), *([] if self._events is None else [self._events])]
        self._files, self._events = {}, None
        return files

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn what the disk refuses into one message, and give up the files with what they could not take."""
        try:
            yield
        except OSError as error:
            for file in self._given_up():
                with contextlib.suppress(OSError):  # closing tries once more to write what is left
                    file.close()
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
    return _read_lines(path, "numbers", lambda values: {name: _number(value) for name, value in values.items()})


def last_logged_step(path: Path) -> int:
    """Return the highest step in a `metrics.jsonl`, 0 where there is no line or no such file.

    Raises:
        RequestError: a whole line is no metrics line.
    """
    return max((line["step"] for line in read_metrics(path)), default=0) if path.exists() else 0


def read_samples(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a `samples.jsonl`, each `{"step": step, "text": text}`; a torn last line is left out.

    Raises:
        RequestError: the file is missing, or a whole line is no sample.
    """
    return _read_lines(path, "'text'", lambda values: {"text": _text(values["text"])})


def sampled_steps(path: Path) -> list[int]:
    """Return the steps of the lines of a `samples.jsonl`, none where there is no such file.

    Raises:
        RequestError: a whole line is no sample.
    """
    return [sample["step"] for sample in read_samples(path)] if path.exists() else []


def _read_lines(path: Path, expected: str, read: Callable[[dict[str, Any]], dict[str, Any]]) -> list[dict[str, Any]]:
    try:
        *lines, _torn = path.read_bytes().split(b"\n")
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror}; check the path") from None
    return [_parsed(line, f"{path}, line {i}", expected, read) for i, line in enumerate(lines, start=1)]


def _parsed(
    line: bytes, place: str, expected: str, read: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    try:
        values = json.loads(line)
        return {"step": _step(values.pop("step"))} | read(values)
    except (ValueError, AttributeError, KeyError, TypeError, OverflowError, RecursionError):
        raise RequestError(
            f"{place}: expected a JSON object with 'step' and {expected}, got {line[:60]!r}; remove that line"
        ) from None


def _step(value: Any) -> int:
    """Return a step as it was written; ValueError where that is none that TensorBoard could hold."""
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError
    return value


def _number(value: Any) -> float:
    """Return a number, or what a word means that stands for one; some error where it is neither."""
    if isinstance(value, str):
        return _WORDS[value]
    if isinstance(value, bool) or not math.isfinite(value):
        raise ValueError
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _rewrite(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    write_atomically(path, "".join(json.dumps(line) + "\n" for line in lines))


def _as_json(values: Mapping[str, float]) -> dict[str, float | str]:
    """Return the values with those that JSON cannot hold in words."""
    return {name: value if math.isfinite(value) else str(value) for name, value in values.items()}
