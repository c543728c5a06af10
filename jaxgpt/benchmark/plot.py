"""Time against T, eager against compiled, both axes logarithmic, the crossing points marked."""

from __future__ import annotations

import importlib.util
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxgpt.config import RequestError

from .results import Results, Row


def check_plot(path: Path) -> None:
    """Refuse, before anything is measured, a plot that could not be drawn.

    Raises:
        RequestError: no matplotlib, another kind of file, or no such folder.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise RequestError("--plot needs matplotlib, which is not installed; pip install 'jaxgpt[plot]'")
    if path.suffix != ".png":
        raise RequestError(f"--plot {path}: expected a name that ends in .png")


def crossings(lengths: Sequence[float], one: Sequence[float], other: Sequence[float]) -> list[tuple[float, float]]:
    """Return the points (T, time) where two curves cross, straight between measured points on logarithmic axes.

    Example:
        >>> [(round(T), round(time)) for T, time in crossings([1, 100], [1, 100], [100, 1])]
        [(10, 10)]
        >>> crossings([1, 100], [1, 100], [2, 200])
        []
    """
    points = [tuple(map(math.log, point)) for point in zip(lengths, one, other, strict=True)]
    found = []
    for (t0, a0, b0), (t1, a1, b1) in itertools.pairwise(points):
        before, after = a0 - b0, a1 - b1
        if before * after < 0:
            share = before / (before - after)
            found.append((math.exp(t0 + share * (t1 - t0)), math.exp(a0 + share * (a1 - a0))))
    return found


def curves(results: Results, passes: str) -> dict[str, dict[int, float]]:
    """Return {contestant and mode: {T: milliseconds}} of attention in one pass."""
    found: dict[str, dict[int, float]] = {}
    for row in results.rows:
        if row.spread and row.passes == passes and row.subject == "attention":
            found.setdefault(_label(row), {})[row.workload.T] = 1e3 * row.spread.median
    return found


def _label(row: Row) -> str:
    sizes = f"B{row.workload.B} H{row.workload.H} D{row.workload.D}"
    return f"{row.contestant}, {row.mode}, {row.devices.split(',')[0]}, {sizes}"


def draw_plot(results: Results, path: Path) -> None:
    """Write the PNG: a panel for each pass."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    passes = list(dict.fromkeys(row.passes for row in results.rows))
    figure, axes = pyplot.subplots(1, len(passes), figsize=(8 * len(passes), 7), squeeze=False)
    for axis, name in zip(axes[0], passes, strict=True):
        _panel(axis, curves(results, name))
        axis.set_title(f"attention, {name}, {results.rows[0].workload.dtype}, {results.rows[0].workload.mask}")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _panel(axis: Any, found: dict[str, dict[int, float]]) -> None:
    for label, points in found.items():
        eager = ", eager," in label
        axis.plot(*zip(*sorted(points.items()), strict=True), "--" if eager else "-", marker=".", label=label)
    crossed = _mark_crossings(axis, found)
    axis.set(xscale="log", yscale="log", ylabel="milliseconds")
    axis.set_xlabel("T" if crossed else "T (eager and compiled do not cross)")
    axis.legend(fontsize=7)
    axis.grid(visible=True, which="both", alpha=0.3)


def _mark_crossings(axis: Any, found: dict[str, dict[int, float]]) -> bool:
    """Mark where eager and a compiled curve cross; return whether any do."""
    marked = False
    for eager, slow in found.items():
        for label, fast in found.items():
            if ", eager," not in eager or ", jit," not in label or eager.split()[-3:] != label.split()[-3:]:
                continue
            lengths = sorted(slow.keys() & fast.keys())
            for T, time in crossings(lengths, [slow[T] for T in lengths], [fast[T] for T in lengths]):
                axis.plot(T, time, "kx", markersize=10)
                axis.annotate(f"T = {T:.0f}", (T, time), textcoords="offset points", xytext=(6, -12), fontsize=8)
                marked = True
    return marked
