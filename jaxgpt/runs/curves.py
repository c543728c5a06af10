"""The curves of runs: a field of their metrics by step, with what is worth saying about it."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxgpt.config import RequestError, nearest, some

from .directory import RunDirectory
from .metrics import read_metrics

LOSS, VALIDATION, VALIDATION_ERROR = "loss", "validation_loss", "validation_standard_error"


@dataclasses.dataclass(frozen=True)
class Curve:
    """One field of one run.

    Attributes:
        steps: Where it was logged.
        values: What, smoothed where that was asked for; NaN where it was not finite.
        errors: The standard error of each, or None where the field has none.
    """

    steps: list[int]
    values: list[float]
    errors: list[float] | None = None

    @property
    def gaps(self) -> int:
        """How many values are not finite, so cannot be drawn."""
        return sum(math.isnan(value) for value in self.values)

    @property
    def lowest(self) -> tuple[int, float] | None:
        """The step and the lowest value, or None where no value is finite."""
        points = [(step, value) for step, value in zip(self.steps, self.values, strict=True) if not math.isnan(value)]
        return min(points, key=lambda point: point[1], default=None)

    @property
    def alone(self) -> list[int]:
        """The places of the values that no line reaches, since neither neighbour can be drawn.

        >>> Curve([1, 2, 3, 4, 5], [3.0, math.nan, 2.0, 1.0, math.nan]).alone
        [0]
        """
        finite = [False, *(not math.isnan(value) for value in self.values), False]
        return [i for i in range(len(self.values)) if finite[i : i + 3] == [False, True, False]]


@dataclasses.dataclass(frozen=True)
class RunCurves:
    """What is drawn of one run.

    Attributes:
        name: Its folder's, or as much of its path as tells it from the others.
        curve: The field asked for.
        validation: The validation loss, where the field is the loss and the run was evaluated; else None.
        tokenizer: What its tokens are, to compare losses by.
    """

    name: str
    curve: Curve
    validation: Curve | None
    tokenizer: dict[str, Any] | None


def read_curves(paths: Sequence[Path], *, field: str, smooth: int) -> list[RunCurves]:
    """Return what is to be drawn of some runs.

    Args:
        paths: Run directories, all different.
        field: A name in their metrics; with "loss" the validation loss comes too.
        smooth: Lines of metrics that are averaged into each value, itself and those before it; validation losses are
            left as they are.

    Raises:
        RequestError: no run directory, one named twice, no metrics yet, a field that they do not have, or no finite
            value at all.
    """
    resolved = [path.resolve() for path in paths]
    if len(set(resolved)) < len(resolved):
        raise RequestError("a run is named twice; name each once")
    names = _names(resolved)
    return [_read_one(path, name, field, smooth) for path, name in zip(paths, names, strict=True)]


def warnings(runs: Sequence[RunCurves], field: str) -> list[str]:
    """Return what somebody who looks at the curves has to know."""
    found = [
        f"{run.name}: {gaps} of {len(run.curve.values)} values are not finite and leave gaps"
        for run in runs
        if (gaps := run.curve.gaps)
    ]
    if field == LOSS and any(run.tokenizer != runs[0].tokenizer for run in runs):
        found.append(
            "the runs have different tokenizers, so their losses per token cannot be compared (bits per byte can: "
            "jaxgpt eval)"
        )
    return found


def _read_one(path: Path, name: str, field: str, smooth: int) -> RunCurves:
    run = RunDirectory.open(path)
    if not run.metrics_path.exists():
        raise RequestError(f"{path} has no metrics: nothing was trained there yet; name a run that has begun")
    lines = read_metrics(run.metrics_path)
    curve = _curve(lines, field, smooth=smooth)
    if not curve.steps:
        known = sorted({key for line in lines for key in line if key != "step"})
        raise RequestError(f"{path} has no metric '{field}'{nearest(field, known)} (it has {some(known, most=20)})")
    validation = _curve(lines, VALIDATION, error=VALIDATION_ERROR) if field == LOSS else None
    if curve.lowest is None:
        raise RequestError(f"{path}: no value of {field} is finite, so there is nothing to draw")
    return RunCurves(name, curve, validation if validation and validation.lowest else None, run.manifest.tokenizer)


def _curve(lines: Sequence[Mapping[str, Any]], field: str, *, error: str | None = None, smooth: int = 1) -> Curve:
    lines = [line for line in lines if field in line]
    values = [_drawable(line[field]) for line in lines]
    errors = None if error is None else [_drawable(line.get(error, math.nan)) for line in lines]
    return Curve([line["step"] for line in lines], running_mean(values, smooth), errors)


def _drawable(value: float) -> float:
    return value if math.isfinite(value) else math.nan


def running_mean(values: Sequence[float], count: int) -> list[float]:
    """Return the mean of each value and those before it, `count` in all or as many as there are.

    What is not a number stays so where it stands, and is left out of the means of those behind it.

    >>> running_mean([1.0, 3.0, float("nan"), 5.0], 2)
    [1.0, 2.0, nan, 5.0]
    """
    means = []
    for i, value in enumerate(values):
        window = [v for v in values[max(0, i + 1 - count) : i + 1] if not math.isnan(v)]
        means.append(value if math.isnan(value) else sum(window) / len(window))
    return means


def averaged(smooth: int) -> str:
    """Return what stands behind the name of a smoothed curve.

    >>> averaged(3), averaged(1)
    (' (mean of 3 logged lines)', '')
    """
    return f" (mean of {smooth} logged lines)" if smooth > 1 else ""


def _names(paths: Sequence[Path]) -> list[str]:
    """Return the last parts of the paths, as many as tell them apart."""
    count = 1
    while len({path.parts[-count:] for path in paths}) < len(paths):
        count += 1
    return [os.path.join(*path.parts[-count:]) for path in paths]
