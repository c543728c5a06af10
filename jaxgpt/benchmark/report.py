"""What a benchmark prints: a table for each workload, and where compilation does not pay."""

from __future__ import annotations

import math

from .machine import Machine
from .results import Results, Row, eager_of, pays_back_after
from .workload import CONVENTION

# A difference smaller than this is not called one.
_SAME = 1.05

_COLUMNS = (
    "contestant",
    "devices",
    "ms",
    "p10-p90",
    "calls",
    "x eager",
    "GFLOP/s",
    "(full)",
    "peak",
    "memory",
    "compile s",
    "temp MB",
    "pays after",
)


def lines(results: Results) -> list[str]:
    """Return the whole report."""
    machine, load = results.machine, results.environment["load_average"][0]
    head = [
        f"this machine at best: {machine.gflops:.1f} GFLOP/s in matrix products, "
        f"{machine.gigabytes_per_second:.1f} GB/s read from memory; load {load:.1f}",
        CONVENTION,
        "peak, memory: share of the two rates above, for the needed FLOP and for every input and output moved once",
        "compile s: of eager its first call, which compiles each operation and also runs it; temp: of all devices",
        "pays after: calls until compiling is made up for against eager, whose operations are compiled already",
    ]
    for group in results.groups():
        head += ["", *_group_lines(group, machine)]
    return [*head, "", *where_compilation_does_not_pay(results)]


def _group_lines(group: list[Row], machine: Machine) -> list[str]:
    first, eager = group[0], eager_of(group)
    cells = [_COLUMNS, *(_cells(row, eager, machine) for row in group if row.spread)]
    widths = [max(len(row[n]) for row in cells) for n in range(len(_COLUMNS))]
    title = f"{first.subject}, {first.workload.name}, {first.workload.dtype}, {first.workload.mask}, {first.passes}"
    return [
        title,
        f"checked against float64 first: {first.checked}",
        *("  ".join(_aligned(n, cell, widths[n]) for n, cell in enumerate(row)).rstrip() for row in cells),
        *_left_out_lines(group),
    ]


def _left_out_lines(group: list[Row]) -> list[str]:
    """Return a line for each reason; what was refused before it was built was so on every device."""
    found: dict[str, dict[str, None]] = {}
    for row in group:
        if row.left_out is not None:
            name = row.contestant if row.compile_seconds is None else row.who
            found.setdefault(row.left_out, {})[name] = None
    return [f"not timed: {', '.join(names)}; {reason}" for reason, names in found.items()]


def _aligned(column: int, cell: str, width: int) -> str:
    return cell.ljust(width) if column < 2 else cell.rjust(width)


def _cells(row: Row, eager: Row | None, machine: Machine) -> tuple[str, ...]:
    spread, shares, after = row.spread, row.shares(machine), pays_back_after(row, eager)
    return (
        row.contestant,
        row.devices,
        f"{1e3 * spread.median:.3g}",
        f"{1e3 * spread.p10:.3g}-{1e3 * spread.p90:.3g}",
        f"{spread.calls}",
        "" if eager is None else f"{eager.spread.median / spread.median:.2f}",
        f"{row.gflops(full=False):.1f}",
        f"{row.gflops(full=True):.1f}",
        f"{shares['of_matmul_peak']:.0%}",
        f"{shares['of_bandwidth']:.0%}",
        "" if row.mode in ("torch", "disable_jit") else f"{row.compile_seconds:.2f}",
        "" if row.temp_bytes is None else f"{row.temp_bytes / 1e6:.1f}",
        "" if after is None else "never" if after == math.inf else f"{after:,}",
    )


def where_compilation_does_not_pay(results: Results) -> list[str]:
    """Return a line for each workload, pass and subject that was run eager and compiled."""
    found = []
    for group in results.groups():
        eager = eager_of(group)
        compiled = [row for row in group if row.mode == "jit" and row.spread]
        if eager is not None and compiled:
            found.append(_verdict(group[0], eager, compiled))
    return ["where compilation does not pay:", *found] if found else []


def _verdict(first: Row, eager: Row, compiled: list[Row]) -> str:
    best = min(compiled, key=lambda row: row.spread.median)
    ratio = eager.spread.median / best.spread.median
    what = f"  {first.subject}, {first.workload.name}, {first.passes}: "
    if ratio < _SAME:
        return what + f"nowhere does it pay: eager is as fast as the fastest compiled, {best.who} ({ratio:.2f}x)"
    slow = [row.who for row in compiled if eager.spread.median / row.spread.median < _SAME]
    after, fresh = pays_back_after(best, eager), pays_back_after(best, eager, fresh=True)
    return (
        what
        + f"for fewer than {after:,} calls ({fresh:,} in a fresh process, where eager compiles too); "
        + f"then {best.who} is {ratio:.2f}x as fast"
        + (f"; eager is as fast as {', '.join(slow)}" if slow else "")
    )
