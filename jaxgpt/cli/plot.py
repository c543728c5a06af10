"""`jaxgpt plot`: the loss curves of one or several runs as a picture."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxgpt.config import RequestError, warn

from .parser import Parser, whole_number

if TYPE_CHECKING:
    from jaxgpt.runs.curves import Curve, RunCurves

_DESCRIPTION = """Draw a metric of one or several runs against the step, into a PNG.

With the loss come the losses of the whole validation split and their standard errors. It may be called while a run
is training.
"""


def main(arguments: list[str]) -> int:
    """Run the sub-command.

    Raises:
        RequestError: no such run or metric, or a picture that could not be drawn.
        WorkError: the picture cannot be written.
    """
    options = _parse(arguments)
    if options.smooth < 1:
        raise RequestError(f"--smooth: expected at least 1, got {options.smooth}")
    from jaxgpt.runs.curves import read_curves, warnings
    from jaxgpt.runs.loss_plot import check_count, draw_runs
    from jaxgpt.runs.pictures import check_picture

    check_picture("--out", options.out)
    check_count(len(options.runs))
    runs = read_curves(options.runs, field=options.field, smooth=options.smooth)
    notes = warnings(runs, options.field)
    draw_runs(runs, options.out, field=options.field, smooth=options.smooth, notes=notes)
    for note in notes:
        warn(note)
    _show(runs, options)
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(prog="jaxgpt plot", description=_DESCRIPTION)
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="run directories")
    parser.add_argument("--out", metavar="FILE", type=Path, required=True, help="the picture, a PNG (required)")
    parser.add_argument(
        "--field", metavar="NAME", default="loss", help="what to draw, a name in metrics.jsonl (default: loss)"
    )
    parser.add_argument(
        "--smooth",
        metavar="N",
        type=whole_number,
        default=1,
        help="average the last N logged lines into each point; not the validation losses (default: 1)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the points on stdout (default: a line for each run)"
    )
    return parser.parse(arguments)


def _show(runs: Sequence[RunCurves], options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps({"field": options.field, "smooth": options.smooth, "runs": [_points(run) for run in runs]}))
        return
    from jaxgpt.runs.curves import averaged

    for run in runs:
        print(f"{run.name}: {_words(options.field + averaged(options.smooth), run.curve)}")
        if run.validation is not None:
            print(f"{run.name}: {_words('validation_loss', run.validation)}")
    print(f"drawn in {options.out}")


def _words(field: str, curve: Curve) -> str:
    step, lowest = curve.lowest
    return f"{field} {curve.values[-1]:.6g} at step {curve.steps[-1]}, lowest {lowest:.6g} at step {step}"


def _points(run: RunCurves) -> dict[str, Any]:
    validation = run.validation and {
        "steps": run.validation.steps,
        "values": _as_json(run.validation.values),
        "standard_errors": _as_json(run.validation.errors),
    }
    curve = {"steps": run.curve.steps, "values": _as_json(run.curve.values)}
    return {"name": run.name, "curve": curve, "validation": validation}


def _as_json(values: Sequence[float]) -> list[float | None]:
    """Return the values, None where there is no number."""
    return [value if value == value else None for value in values]
