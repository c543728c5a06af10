"""What the benchmark of generation prints: a table for each batch, and where a cache or a layout does not pay."""

from __future__ import annotations

import math

from jaxgpt.benchmark.timing import Spread

from .results import CACHED, LEGEND, STORED, TRANSFORMERS, UNCACHED, Group, Results, Row
from .verify import Check
from .workload import CONVENTION

# A difference smaller than this is not called one.
_SAME = 1.05

_COLUMNS = (
    "contestant",
    "ms a step",
    "p10-p90",
    "calls",
    "tokens/s",
    "of bound",
    "x transformers",
    "first token ms",
    "compile s",
)


def lines(results: Results) -> list[str]:
    """Return the whole report."""
    model, load = results.model, results.environment["load_average"][0]
    named = [name for name in LEGEND if any(row.contestant == name for group in results.groups for row in group.rows)]
    head = [
        f"{model.name}: {model.source}; float32, greedy; load {load:.1f}",
        CONVENTION,
        "of bound: of the speed at which this machine reads a step's bytes and does nothing else, timed in turn",
        f"checked first: {Check.scope}",
        *(f"{name}: {LEGEND[name]}{_threads(name, results)}" for name in named),
    ]
    for group in results.groups:
        head += ["", *_group_lines(group), *_verdicts(group, results)]
    return head


def _threads(name: str, results: Results) -> str:
    return f", {results.peer_threads} threads" if name == TRANSFORMERS else ""


def _group_lines(group: Group) -> list[str]:
    workload, reading = group.workload, group.reading
    rate = group.gigabytes_per_second(reading.median)
    cells = [_COLUMNS, *(_cells(group, row) for row in group.rows if row.step)]
    cells.append(("reading alone", *_milliseconds(reading), f"{workload.B / reading.median:,.0f}", *[""] * 4))
    widths = [max(len(row[n]) for row in cells) for n in range(len(_COLUMNS))]
    return [
        f"{workload.name}: a step reads {workload.weight_bytes / 1e6:,.1f} MB of parameters and on average "
        f"{workload.cache_bytes / 1e6:,.2f} MB of cache; reading alone does {rate:.1f} GB/s",
        *("  ".join(_aligned(n, cell, widths[n]) for n, cell in enumerate(row)).rstrip() for row in cells),
        *(f"not timed: {row.contestant}; {row.left_out}" for row in group.rows if row.left_out is not None),
        *(_close_line(row) for row in group.rows if row.close),
    ]


def _aligned(column: int, cell: str, width: int) -> str:
    return cell.ljust(width) if column == 0 else cell.rjust(width)


def _milliseconds(spread: Spread) -> tuple[str, str, str]:
    return f"{1e3 * spread.median:.3g}", f"{1e3 * spread.p10:.3g}-{1e3 * spread.p90:.3g}", f"{spread.calls}"


def _cells(group: Group, row: Row) -> tuple[str, ...]:
    times = group.times(row, TRANSFORMERS)
    return (
        row.contestant,
        *_milliseconds(row.step),
        f"{group.tokens_per_second(row):,.0f}",
        f"{group.share(row):.0%}",
        "" if times is None else f"{times:.2f}",
        f"{1e3 * row.first.median:.3g}",
        f"{row.compile_seconds:.2f}",
    )


def _close_line(row: Row) -> str:
    return f"{row.contestant}: {row.close} tokens are not the full pass's first choice, whose logits lie that close"


def _verdicts(group: Group, results: Results) -> list[str]:
    """Say whether the cache pays, and whether laying out the parameters does."""
    found, cached = [], group.row(CACHED)
    gain = None if cached is None else group.times(cached, UNCACHED)
    if gain is not None:
        text = f"{gain:.2f}x as fast as without one"
        found.append(f"the cache pays: {text}" if gain >= _SAME else f"the cache does not pay here: {text}")
    after = results.pays_back_after(group)
    if after is not None:
        found.append(_layout_verdict(after, group.times(cached, STORED), results.prepare_seconds))
    return found


def _layout_verdict(after: float, gain: float, seconds: float) -> str:
    if gain < _SAME or after == math.inf:
        return f"laying out the parameters does not pay here: {gain:.2f}x as fast"
    return f"laying out the parameters takes {1e3 * seconds:.3g} ms, pays after {after:,} steps: {gain:.2f}x as fast"
