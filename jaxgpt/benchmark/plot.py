"""Time against T, eager against compiled, both axes logarithmic, the crossing points marked."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxgpt.runs.pictures import picture

from .results import Results


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


class Curve(NamedTuple):
    """What the points of one curve have in common."""

    contestant: str
    mode: str
    devices: str
    sizes: str


def curves(results: Results, passes: str) -> dict[Curve, dict[int, float]]:
    """Return {curve: {T: milliseconds}} of attention in one pass."""
    found: dict[Curve, dict[int, float]] = {}
    for row in results.rows:
        if row.spread and row.passes == passes and row.subject == "attention":
            sizes = f"B{row.workload.B} H{row.workload.H} D{row.workload.D} K{row.workload.K}"
            curve = Curve(row.contestant, row.mode, row.devices.split(",")[0], sizes)
            found.setdefault(curve, {})[row.workload.T] = 1e3 * row.spread.median
    return found


def draw_plot(results: Results, path: Path) -> None:
    """Write the PNG: a panel for each pass."""
    passes = list(dict.fromkeys(row.passes for row in results.rows))
    with picture(path, panels=len(passes), size=(8, 7)) as axes:
        for axis, name in zip(axes, passes, strict=True):
            _panel(axis, curves(results, name))
            axis.set_title(f"attention, {name}, {results.rows[0].workload.dtype}, {results.rows[0].workload.mask}")


def _panel(axis: Any, found: dict[Curve, dict[int, float]]) -> None:
    for curve, points in found.items():
        dashes = "--" if curve.mode == "eager" else "-"
        label = f"{curve.contestant}, {curve.devices}, {curve.sizes}"
        axis.plot(*zip(*sorted(points.items()), strict=True), dashes, marker=".", label=label)
    crossed = _mark_crossings(axis, found)
    axis.set(xscale="log", yscale="log", ylabel="milliseconds")
    lengths = sorted({T for points in found.values() for T in points})
    axis.set_xticks(lengths, labels=map(str, lengths))
    axis.set_xticks([], minor=True)
    axis.set_xlabel("T" if crossed else "T (eager and compiled do not cross)")
    if found:
        axis.legend(fontsize=7)
    axis.grid(visible=True, which="both", alpha=0.3)


def _mark_crossings(axis: Any, found: dict[Curve, dict[int, float]]) -> bool:
    """Mark where eager and a compiled curve cross; return whether any do."""
    marked = False
    for eager, compiled in itertools.product(found, found):
        if (eager.mode, compiled.mode, eager.sizes) != ("eager", "jit", compiled.sizes):
            continue
        lengths = sorted(found[eager].keys() & found[compiled].keys())
        times = ([found[curve][T] for T in lengths] for curve in (eager, compiled))
        for T, time in crossings(lengths, *times):
            axis.plot(T, time, "kx", markersize=10)
            axis.annotate(f"T = {T:.0f}", (T, time), textcoords="offset points", xytext=(6, -12), fontsize=8)
            marked = True
    return marked
