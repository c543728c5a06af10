"""How many devices share the rows, and what each of them holds."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgpt.sharding.mesh import largest_divisor

EIGHT_DEVICES = """
import json
import jax
jax.config.update("jax_num_cpu_devices", 8)
import jax.numpy as jnp
import numpy as np
from jaxgpt.config import RequestError
from jaxgpt.sharding.mesh import data_mesh, place, replicated, split_rows

def refusal(*arguments):
    try:
        return data_mesh(*arguments).size
    except RequestError as error:
        return str(error)

def rows_per_device(array, axis):
    return [shard.data.shape[axis] for shard in array.addressable_shards]

mesh = data_mesh(16)
tree = place({"a": np.arange(32.0).reshape(16, 2)}, split_rows(mesh))
micro = place(np.zeros((3, 16, 2)), split_rows(mesh, axis=1))
whole = place(np.arange(5.0), replicated(mesh))
print(json.dumps({
    "devices": len(jax.devices()),
    "chosen": {rows: data_mesh(rows).size for rows in (1, 2, 6, 7, 8, 11, 12, 16, 24)},
    "wanted": {wanted: data_mesh(8, wanted).size for wanted in (1, 2, 4, 8)},
    "too many": refusal(16, 16),
    "axis": mesh.axis_names,
    "split": rows_per_device(tree["a"], 0),
    "same": tree["a"].tolist() == np.arange(32.0).reshape(16, 2).tolist(),
    "micro": [rows_per_device(micro, 1), rows_per_device(micro, 0)],
    "whole": rows_per_device(whole, 0),
}))
"""
ARRANGED = """
import sys
from jaxgpt.sharding.cpu import arrange_cpu_devices
arrange_cpu_devices(int(sys.argv[1]), int(sys.argv[2]))
import jax
print(len(jax.devices()))
"""


def child(program, *arguments, **variables):
    """Run a program whose devices are its own, and return what it printed."""
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"} | variables
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def seen():
    """What a process with eight CPU devices sees."""
    return json.loads(child(EIGHT_DEVICES))


@given(number=st.integers(1, 5000), limit=st.integers(1, 200))
def test_the_largest_divisor_divides_and_no_larger_one_does(number, limit):
    divisor = largest_divisor(number, limit)
    assert number % divisor == 0
    assert 1 <= divisor <= limit
    assert all(number % larger for larger in range(divisor + 1, min(number, limit) + 1))


def test_the_mesh_takes_the_most_devices_that_divide_the_rows(seen):
    assert seen["devices"] == 8
    chosen = {int(rows): devices for rows, devices in seen["chosen"].items()}
    assert chosen == {1: 1, 2: 2, 6: 6, 7: 7, 8: 8, 11: 1, 12: 6, 16: 8, 24: 8}
    assert seen["axis"] == ["data"]


def test_a_wanted_number_of_devices_is_taken(seen):
    assert seen["wanted"] == {"1": 1, "2": 2, "4": 4, "8": 8}


def test_more_devices_than_there_are_are_refused(seen):
    assert seen["too many"] == (
        "mesh.data is 16, but there are 8 cpu devices; use at most 8, or 0 to let it be chosen"
    )


def test_rows_are_divided_evenly_and_parameters_are_everywhere(seen):
    assert seen["split"] == [2] * 8
    assert seen["same"]
    assert seen["micro"] == [[2] * 8, [3] * 8]
    assert seen["whole"] == [5] * 8


def test_a_wanted_number_of_cpu_devices_is_arranged():
    assert child(ARRANGED, 12, 3) == "3\n"


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not say which cores it may use")
def test_cpu_devices_are_as_many_as_the_cores_that_divide_the_rows():
    expected = largest_divisor(12, len(os.sched_getaffinity(0)))
    assert child(ARRANGED, 12, 0) == f"{expected}\n"


def test_devices_that_the_environment_fixed_stay():
    flags = "--xla_force_host_platform_device_count=5"
    assert child(ARRANGED, 12, 3, XLA_FLAGS=flags) == "5\n"
