"""The benchmark of generation from end to end: each contestant checked, then those that are right timed in turn."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax

from jaxgpt.benchmark.machine import environment
from jaxgpt.benchmark.timing import measured_in_turn, spread, turn_length
from jaxgpt.model.serving import Prepared, prepare

from .bound import reader
from .contestants import Contestant, contestants
from .peer import threads
from .results import Group, Results, Row
from .verify import Check
from .workload import Model, Workload

_READING = "reading alone"


class Admitted(NamedTuple):
    """What is timed, and the seconds of a call that did not compile."""

    call: Callable[[], Any]
    seconds: float


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
    check, rows, admitted = Check(params, workload), [], {}
    for entrant in entrants:
        say(f"{workload.name}: {entrant.name}")
        row, timed = admit(entrant, workload, check)
        rows.append(row)
        if timed is not None:
            admitted[row.contestant] = timed
    say(f"{workload.name}: {rounds} rounds")
    read = reader(workload.step_bytes, workload.steps)
    admitted[_READING] = Admitted(read, _seconds(read))
    measures = {name: timed.call for name, timed in admitted.items()}
    turns = {name: turn_length(timed.seconds) for name, timed in admitted.items()}
    found = measured_in_turn(measures, turns, rounds)
    reading = spread(found.pop(_READING))
    return Group(workload, tuple(_with_times(row, found.get(row.contestant)) for row in rows), reading)


def admit(entrant: Contestant, workload: Workload, check: Check) -> tuple[Row, Admitted | None]:
    """Return the row with what the check showed, and what is timed; of a wrong one nothing is."""
    row = Row(entrant.name, left_out=entrant.refusal)
    if entrant.make is None:
        return row, None
    program = entrant.make(workload)
    start = time.perf_counter()
    timed = program.call()
    first = time.perf_counter() - start
    verdict = check.verdict(timed.choices)
    if verdict.refusal is None and program.with_nats is not None:
        verdict = check.verdict(program.with_nats())
    if verdict.refusal is not None:
        return dataclasses.replace(row, left_out=verdict.refusal, wrong=True), None
    second = _seconds(program.call)
    row = dataclasses.replace(row, compile_seconds=max(first - second, 0.0), close=verdict.close)
    return row, Admitted(program.call, second)


def _with_times(row: Row, found: list | None) -> Row:
    if found is None:
        return row
    first, step = ([getattr(timed, name) for timed in found] for name in ("first", "step"))
    return dataclasses.replace(row, first=spread(first), step=spread(step))


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
