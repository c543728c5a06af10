"""From a contestant to a program that can be run and timed: compiled where that is its mode."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax

from .contestants import Contestant, Function
from .division import Division
from .peers import torch_call, untensored
from .workload import Case, Pass, Workload


@dataclasses.dataclass(frozen=True)
class Program:
    """What is timed.

    Attributes:
        call: Runs once and returns (out, gradients or None) when they are ready.
        compile_seconds: Tracing and compiling; of what is not compiled whole, its first call, which is also one run.
        temp_bytes: Peak of temporary memory over all devices, by the compiler's count; None where nothing is compiled
            whole.
        arrays: Turns what `call` returns into arrays [B,T,...] for the check.
    """

    call: Callable[[], Any]
    compile_seconds: float
    temp_bytes: int | None
    arrays: Callable[[Any], Any] = lambda result: result


def build(contestant: Contestant, workload: Workload, division: Division, case: Case, passes: Pass) -> Program:
    """Return the program of a contestant for one pass.

    Args:
        contestant: Who.
        workload: The shape.
        division: Among which devices; a mode other than "jit" takes the first.
        case: The numbers.
        passes: Forward alone, or with all gradients.
    """
    function = contestant.make(workload, division)
    if contestant.mode == "torch":
        return _torch(function, case, passes)
    arguments = division.placed(workload, contestant.subject, case)
    run = _forward(function) if passes == "forward" else _with_gradients(function)
    if contestant.mode == "jit":
        return _compiled(run, arguments, division)
    if contestant.mode == "disable_jit":
        return _called_once(_disabled(run, arguments))
    jax.clear_caches()  # or its first call would find operations that others had compiled
    return _called_once(_ready(run, arguments))


def _forward(function: Function) -> Function:
    def forward(arguments, d_out):
        return function(*arguments), None

    return forward


def _with_gradients(function: Function) -> Function:
    def both(arguments, d_out):
        out, pull = jax.vjp(function, *arguments)
        return out, pull(d_out)

    return both


def _ready(run: Function, arguments: tuple) -> Callable[[], Any]:
    return lambda: jax.block_until_ready(run(*arguments))


def _disabled(run: Function, arguments: tuple) -> Callable[[], Any]:
    def call():
        with jax.disable_jit():
            return jax.block_until_ready(run(*arguments))

    return call


def _compiled(run: Function, arguments: tuple, division: Division) -> Program:
    start = time.perf_counter()
    with division.in_place():
        compiled = jax.jit(run).lower(*arguments).compile()
    seconds = time.perf_counter() - start
    memory = compiled.memory_analysis()
    temp_bytes = None if memory is None else memory.temp_size_in_bytes * division.devices
    return Program(_ready(compiled, arguments), seconds, temp_bytes)


def _called_once(call: Callable[[], Any]) -> Program:
    start = time.perf_counter()
    call()
    return Program(call, time.perf_counter() - start, None)


def _torch(function: Function, case: Case, passes: Pass) -> Program:
    gradients = passes != "forward"
    call = torch_call(function, case, gradients=gradients)

    def arrays(result):
        if not gradients:
            return untensored(result), None
        out, gradients_BHTD = result
        return untensored(out), tuple(map(untensored, gradients_BHTD))

    return dataclasses.replace(_called_once(call), arrays=arrays)
