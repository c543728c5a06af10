"""Curves of runs as a picture: a colour for each run, training thin, validation thick with its error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxgpt.config import RequestError

from .curves import LOSS, Curve, RunCurves, averaged
from .pictures import COLOURS, picture

_UNITS = {
    "loss": "nats per token",
    "validation_loss": "nats per token",
    "validation_estimate": "nats per token",
    "train_estimate": "nats per token",
    "tokens_per_second": "tokens per second",
    "mfu": "share of the peak",
    "loader_share": "share of the training time",
    "token_count": "tokens per step",
}
_MARKERS = "osD^vPX"  # for paper without colours


def check_count(runs: int) -> None:
    """Refuse more runs than can be told apart.

    Raises:
        RequestError: there are more than colours.
    """
    if runs > len(COLOURS):
        raise RequestError(f"{runs} runs are more than can be told apart; name at most {len(COLOURS)}")


def draw_runs(runs: Sequence[RunCurves], path: Path, *, field: str, smooth: int, notes: Sequence[str]) -> None:
    """Write the PNG.

    Args:
        runs: As many as there are colours, at most.
        path: Where to.
        field: What their curves are.
        smooth: How many lines went into each value.
        notes: Lines below the picture.

    Raises:
        WorkError: the file cannot be written.
    """
    with picture(path, panels=1, size=(9, 6)) as (axis,):
        for run, colour, marker in zip(runs, COLOURS, _MARKERS, strict=False):
            _draw_run(axis, run, colour, marker, f"{', training' if field == LOSS else ''}{averaged(smooth)}")
        unit = _UNITS.get(field, "")
        axis.set_ylabel(f"{field}{', ' if unit else ''}{unit}")
        axis.set_xlabel("\n".join(["step", *notes]))
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(visible=True, alpha=0.3)
        axis.legend(frameon=False)


def _draw_run(axis: Any, run: RunCurves, colour: str, marker: str, what: str) -> None:
    thin = 1.0 if run.validation else 1.6
    steps, values, alone = run.curve.steps, run.curve.values, run.curve.alone
    axis.plot(steps, values, color=colour, linewidth=thin, alpha=0.75, label=f"{run.name}{what}")
    if alone:
        axis.plot([steps[i] for i in alone], [values[i] for i in alone], ".", color=colour, alpha=0.75)
    if run.validation is not None:
        _draw_validation(axis, run.validation, run.name, colour, marker)


def _draw_validation(axis: Any, curve: Curve, name: str, colour: str, marker: str) -> None:
    step, lowest = curve.lowest
    label = f"{name}, validation ± standard error (lowest {lowest:.4f} at step {step:,})"
    axis.plot(curve.steps, curve.values, color=colour, linewidth=2, marker=marker, markersize=5, label=label)
    edges = [
        (s, v - e, v + e)
        for s, v, e in zip(curve.steps, curve.values, curve.errors, strict=True)
        if not (math.isnan(v) or math.isnan(e))
    ]
    if edges:
        axis.fill_between(*zip(*edges, strict=True), color=colour, alpha=0.2, linewidth=0)
