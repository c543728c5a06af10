"""Each mode runs as it says: compiled once, or step by step at every call."""

import dataclasses

import jax
import pytest

from jaxgpt.benchmark.contestants import Contestant
from jaxgpt.benchmark.division import Division
from jaxgpt.benchmark.programs import build
from jaxgpt.benchmark.workload import parse_shape

WORKLOAD = parse_shape("1x4x1x4")
CASE = WORKLOAD.case("attention")


@pytest.fixture
def calls(request):
    """Build a contestant of a mode, call it twice; return what each run of its Python saw, and the program."""

    def run(mode):
        seen = []

        def function(q, k, v):
            jax.jit(lambda x: seen.append(isinstance(x, jax.core.Tracer)) or x)(q)
            return q + k + v

        entrant = Contestant("mine", lambda workload, division: function, mode)
        program = build(entrant, WORKLOAD, Division(), CASE, "forward")
        program.call()
        program.call()
        return seen, program

    return run


def test_what_is_compiled_runs_its_python_once(calls):
    seen, program = calls("jit")
    assert seen == [True]
    assert program.compile_seconds > 0
    assert program.temp_bytes is not None


def test_eager_runs_its_python_at_every_call_and_compiles_inner_functions(calls):
    seen, program = calls("eager")
    assert seen == [True] * 3  # of the first call, and the two here
    assert program.temp_bytes is None


def test_the_first_call_of_eager_finds_nothing_compiled_before():
    traced = []
    inner = jax.jit(lambda x: traced.append(x) or x)
    entrant = Contestant("mine", lambda workload, division: lambda q, k, v: inner(q), "eager")
    compiled = build(dataclasses.replace(entrant, mode="jit"), WORKLOAD, Division(), CASE, "forward")
    for programs in (1, 2):
        build(entrant, WORKLOAD, Division(), CASE, "forward").call()
        assert len(traced) == 1 + programs
    compiled.call()
    assert len(traced) == 3


def test_disable_jit_compiles_no_inner_function_either(calls):
    assert calls("disable_jit")[0] == [False] * 3
