"""The benchmark from end to end: each workload verified, then its programs timed in turn."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from .contestants import Contestant
from .division import Division, divisions
from .machine import Machine, environment, free_bytes, measure_machine
from .programs import Program, build
from .results import Results, Row
from .timing import time_in_turn
from .verify import Check, make_check
from .workload import Case, Pass, Subject, Workload

_SQUARES = {"forward": 4, "forward+backward": 6}  # float32 [B,H,T,T] that op by op attention holds at once


def run_benchmark(
    workloads: Iterable[Workload],
    entrants: Iterable[Contestant],
    *,
    passes: tuple[Pass, ...],
    devices: str,
    seconds: float,
    say: Callable[[str], None],
) -> Results:
    """Verify, compile and time every contestant on every workload.

    Args:
        workloads: Shapes, all of one dtype.
        entrants: Who takes part.
        passes: Which passes.
        devices: "one", "all" or "both", as in `divisions`.
        seconds: Time for a contestant in one pass.
        say: Is told what is being done.
    """
    workloads, entrants = list(workloads), list(entrants)
    surroundings = environment()
    say("measuring the machine")
    before = measure_machine(workloads[0].dtype, 2 * seconds)
    rows: list[Row] = []
    for workload in workloads:
        for subject in dict.fromkeys(entrant.subject for entrant in entrants):
            say(f"{subject}, {workload.name}: float64 reference")
            case = workload.case(subject)
            check = make_check(workload, subject, case)
            mine = [entrant for entrant in entrants if entrant.subject == subject]
            for name in passes:
                rows += _timed_rows(workload, subject, case, check, name, mine, devices, seconds, say)
    say("measuring the machine again")
    after = measure_machine(workloads[0].dtype, 2 * seconds)
    return Results(tuple(rows), Machine(*map(max, before, after)), surroundings)


def _timed_rows(
    workload: Workload,
    subject: Subject,
    case: Case,
    check: Check,
    passes: Pass,
    entrants: list[Contestant],
    devices: str,
    seconds: float,
    say: Callable[[str], None],
) -> list[Row]:
    """Build and verify every program of one pass, then time those that are right, in turn."""
    rows, programs = [], {}
    for entrant in entrants:
        for division in _divisions_of(entrant, workload, devices):
            where = _place(entrant, division)
            row = Row(workload, passes, entrant.name, entrant.mode, subject, where, check.scope)
            say(f"{subject}, {workload.name}, {passes}: {row.who}")
            row, program = admit(row, entrant, division, case, check)
            rows.append(row)
            if program is not None:
                programs[row.who] = program
    spreads = time_in_turn({who: program.call for who, program in programs.items()}, seconds) if programs else {}
    return [dataclasses.replace(row, spread=spreads.get(row.who)) for row in rows]


def _divisions_of(entrant: Contestant, workload: Workload, devices: str) -> list[Division]:
    """Only what is compiled is divided."""
    return divisions(workload, devices) if entrant.mode == "jit" else [Division()]


def _place(entrant: Contestant, division: Division) -> str:
    return "all cores" if entrant.mode == "torch" else str(division)


def admit(row: Row, entrant: Contestant, division: Division, case: Case, check: Check) -> tuple[Row, Program | None]:
    """Return the row with what building it showed, and the program if it may be timed.

    A program that the contestant refuses, that memory does not hold, or whose result is wrong, is not timed.
    """
    refusal = entrant.refusal(row.workload) or _too_large(entrant, row)
    if refusal is not None:
        return dataclasses.replace(row, left_out=refusal), None
    program = build(entrant, row.workload, division, case, row.passes)
    row = dataclasses.replace(row, compile_seconds=program.compile_seconds, temp_bytes=program.temp_bytes)
    refusal = _over("compiled, it needs", program.temp_bytes or 0)
    if refusal is not None:
        return dataclasses.replace(row, left_out=refusal), None
    refusal = check.refusal(*program.arrays(program.call()))
    return dataclasses.replace(row, left_out=refusal, wrong=refusal is not None), None if refusal else program


def _too_large(entrant: Contestant, row: Row) -> str | None:
    """Judge by its squares of scores what no compiler judges."""
    if not entrant.holds_squares:
        return None
    workload = row.workload
    square = 4 * workload.B * workload.H * workload.T**2
    return _over("op by op, it needs about", _SQUARES[row.passes] * square)


def _over(words: str, needed: int) -> str | None:
    free = free_bytes()
    if free is None or needed < 0.9 * free:
        return None
    return f"{words} {needed / 1e9:.1f} GB of memory, {free / 1e9:.1f} GB are free"
