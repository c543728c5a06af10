"""Results that were not measured: rows with times one can reckon with."""

import pytest

from jaxgpt.benchmark.machine import Machine
from jaxgpt.benchmark.results import Results, Row
from jaxgpt.benchmark.timing import Spread
from jaxgpt.benchmark.workload import parse_shape


@pytest.fixture
def row():
    """Return a function that makes a row of one contestant at one T, timed if it has seconds."""

    def make(contestant, seconds, *, T=4, mode="jit", devices="1 device", compiling=1.0, **fields):
        spread = None if seconds is None else Spread(seconds, seconds / 2, seconds * 2, 9)
        workload = parse_shape(f"1x{T}x1x8")
        return Row(
            workload, "forward", contestant, mode, "attention", devices, "all of it", compiling, 100, spread, **fields
        )

    return make


@pytest.fixture
def results():
    """Return a function that makes results of rows, on a machine of 2 GFLOP/s and 4 GB/s."""

    def make(*rows):
        return Results(rows, Machine(2.0, 4.0), {"load_average": (0.5, 0.0, 0.0), "cores": 2})

    return make
