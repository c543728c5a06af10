"""The benchmark of generation from end to end: each contestant checked, then those that are right timed in turn."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax

from jaxgpt.benchmark.machine import environment
from jaxgpt.benchmark.timing import measured_in_turn, spread, turn_length
from jaxgpt.model.serving import Prepared, prepare

from .bound import reader
from .contestants import Contestant, contestants
from .peer import threads
from .programs import Program
from .results import Group, Results, Row
from .verify import Check
from .workload import Model, Workload


def run_benchmark(
    model: Model, workloads: Iterable[Workload], *, peers: bool, rounds: int, say: Callable[[str], None]
) -> Results:
    """Check and time every contestant at every workload.

    Args:
        model: What generates.
        workloads: Of its architecture.
        peers: Whether transformers takes part.
        rounds: How many rounds are timed; in each everyone has a turn.
        say: Is told what is being done.
    """
    surroundings = environment()
    say("laying out the parameters")
    prepared, prepare_seconds = _prepared(model)
    entrants = contestants(model, prepared, peers=peers)
    groups = [timed_group(workload, entrants, model.params, rounds, say) for workload in workloads]
    return Results(model, tuple(groups), prepare_seconds, threads() if peers else None, surroundings)


def _prepared(model: Model) -> tuple[Prepared, float]:
    """Return the parameters laid out, and what that takes once it is compiled."""
    jax.block_until_ready(prepare(model.config, model.params))
    start = time.perf_counter()
    prepared = jax.block_until_ready(prepare(model.config, model.params))
    return prepared, time.perf_counter() - start


def timed_group(
    workload: Workload,
    entrants: Iterable[Contestant],
    params: Mapping[str, Any],
    rounds: int,
    say: Callable[[str], None],
) -> Group:
    """Check every contestant, then time those that are right, and reading alone, in turn."""
    check, rows, programs = Check(params, workload), [], {}
    for entrant in entrants:
        say(f"{workload.name}: {entrant.name}")
        row, program = admit(entrant, workload, check)
        rows.append(row)
        if program is not None:
            programs[row.contestant] = program
    say(f"{workload.name}: {rounds} rounds")
    read = reader(workload.step_bytes, workload.steps)
    measures = {name: program.call for name, program in programs.items()} | {"": read}
    turns = {name: turn_length(_seconds(measure)) for name, measure in measures.items()}
    found = measured_in_turn(measures, turns, rounds)
    reading = spread(found.pop(""))
    return Group(workload, tuple(_with_times(row, found.get(row.contestant)) for row in rows), reading)


def admit(entrant: Contestant, workload: Workload, check: Check) -> tuple[Row, Program | None]:
    """Return the row with what the check showed, and the program if it may be timed; a wrong one may not."""
    row = Row(entrant.name, left_out=entrant.refusal)
    if entrant.refusal is not None:
        return row, None
    program = entrant.make(workload)
    start = time.perf_counter()
    timed = program.call()
    first = time.perf_counter() - start
    verdict = check.verdict(timed.choices)
    if verdict.refusal is None:
        verdict = check.verdict(program.with_nats())
    compile_seconds = max(first - _seconds(program.call), 0.0)
    row = dataclasses.replace(row, compile_seconds=compile_seconds, close=verdict.close)
    if verdict.refusal is not None:
        return dataclasses.replace(row, left_out=verdict.refusal, wrong=True), None
    return row, program


def _with_times(row: Row, found: list | None) -> Row:
    if found is None:
        return row
    first, step = ([getattr(timed, name) for timed in found] for name in ("first", "step"))
    return dataclasses.replace(row, first=spread(first), step=spread(step))


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
