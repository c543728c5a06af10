"""What a benchmark found: a row for each program, and the record of all with the machine and the command."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from .machine import Machine
from .timing import Spread
from .workload import CONVENTION, Pass, Subject, Workload


@dataclasses.dataclass(frozen=True)
class Row:
    """One contestant on one workload in one pass.

    Attributes:
        workload, passes: What was computed.
        contestant, mode, subject: Who computed it.
        devices: "1 device", or how many and what was divided.
        checked: What was compared with float64, and how close it had to be.
        compile_seconds: As in `Program`; None where it was not built.
        temp_bytes: As in `Program`.
        spread: Of the times; None where it was not timed.
        left_out: Why it was not timed; None where it was.
        wrong: Whether that is because the result was wrong.
    """

    workload: Workload
    passes: Pass
    contestant: str
    mode: str
    subject: Subject
    devices: str
    checked: str
    compile_seconds: float | None = None
    temp_bytes: int | None = None
    spread: Spread | None = None
    left_out: str | None = None
    wrong: bool = False

    @property
    def who(self) -> str:
        """Contestant and devices."""
        return f"{self.contestant} ({self.devices})"

    def gflops(self, *, full: bool) -> float:
        """10^9 operations a second, by the convention of `workload.CONVENTION`."""
        return self.workload.flops(self.subject, self.passes, full=full) / self.spread.median / 1e9

    def shares(self, machine: Machine) -> dict[str, float]:
        """Return how much of what the machine can do was reached: needed FLOP, and least bytes, a second."""
        rate = self.workload.least_bytes(self.subject, self.passes) / self.spread.median / 1e9
        return {
            "of_matmul_peak": self.gflops(full=False) / machine.gflops,
            "of_bandwidth": rate / machine.gigabytes_per_second,
        }


@dataclasses.dataclass(frozen=True)
class Results:
    """All rows, and what they were measured on."""

    rows: tuple[Row, ...]
    machine: Machine
    environment: dict[str, Any]

    @property
    def wrong(self) -> tuple[Row, ...]:
        """The rows that were refused because their results were wrong."""
        return tuple(row for row in self.rows if row.wrong)

    def groups(self) -> list[list[Row]]:
        """Return the rows of each workload, pass and subject, in order."""
        found: dict[tuple, list[Row]] = {}
        for row in self.rows:
            found.setdefault((row.workload, row.passes, row.subject), []).append(row)
        return list(found.values())


def eager_of(group: list[Row]) -> Row | None:
    """Return the timed row of a group that runs operation by operation."""
    return next((row for row in group if row.mode == "eager" and row.spread), None)


def pays_back_after(row: Row, eager: Row | None, *, fresh: bool = False) -> float | None:
    """Return after how many calls a compiled program has made up for its compilation against eager.

    Args:
        row: The compiled program's.
        eager: What it is held against.
        fresh: In a new process, where eager's first call compiles each operation by itself.

    Returns:
        Infinity where eager is as fast or faster, None where there is nothing to compare.
    """
    if eager is None or row.mode != "jit" or row.spread is None:
        return None
    gain = eager.spread.median - row.spread.median
    # Eager's first call is also one run, which is no loss.
    ahead = row.compile_seconds - (eager.compile_seconds - eager.spread.median if fresh else 0)
    return max(1, math.ceil(ahead / gain)) if gain > 0 else math.inf


def as_record(results: Results, command: str) -> dict[str, Any]:
    """Return everything in JSON's types; times are in seconds."""
    machine = results.machine
    return {
        "command": command,
        "convention": CONVENTION,
        "environment": results.environment,
        "machine": machine._asdict(),
        "rows": [_row_record(row, eager_of(group), machine) for group in results.groups() for row in group],
    }


def _row_record(row: Row, eager: Row | None, machine: Machine) -> dict[str, Any]:
    head = {
        "workload": dataclasses.asdict(row.workload),
        "pass": row.passes,
        "subject": row.subject,
        "contestant": row.contestant,
        "mode": row.mode,
        "devices": row.devices,
        "checked": row.checked,
    }
    built = {"compile_seconds": row.compile_seconds, "temp_bytes": row.temp_bytes}
    if row.spread is None:
        return head | built | {"left_out": row.left_out, "wrong": row.wrong}
    after = pays_back_after(row, eager)
    return (
        head
        | built
        | {"seconds": row.spread._asdict()}
        | {"gflops_needed": row.gflops(full=False), "gflops_full": row.gflops(full=True)}
        | row.shares(machine)
        | {"times_eager": eager and eager.spread.median / row.spread.median}
        | {"pays_back_after_calls": None if after == math.inf else after}
    )
