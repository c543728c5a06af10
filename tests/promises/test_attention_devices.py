"""Every attention kernel of the CPU, divided among 8 devices, is the float64 formula over the whole table."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from attention_cases import CASES, refusal

from jaxgpt.ops.attention import KERNELS

pytestmark = pytest.mark.ci  # minutes of compilation

CHILD = Path(__file__).with_name("attention_devices_child.py")
LOCAL = [name for name, kernel in KERNELS.items() if kernel.local and "cpu" in kernel.platforms]


@pytest.fixture(scope="module")
def report():
    """What is wrong with each kernel, found in a process that has 8 CPU devices."""
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    environment["JAX_PLATFORMS"] = "cpu"
    done = subprocess.run([sys.executable, CHILD], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["devices"] == 8
    return report


def wrong(case_name, name, outcome):
    """What is wrong with what a kernel made of a case, its refusals included."""
    expected = refusal(name, case_name)
    if expected is None:
        return outcome["wrong"]
    return [] if expected in outcome.get("refused", "") else [f"expected the refusal '{expected}', got {outcome}"]


@pytest.mark.parametrize("case_name", CASES)
def test_each_kernel_on_eight_devices_is_the_formula_or_refuses(report, case_name):
    for name in KERNELS:
        assert wrong(case_name, name, report["with_a_mesh"][case_name][name]) == [], name


@pytest.mark.parametrize("way", ["by_its_arguments", "inside_shard_map"])
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_on_eight_devices_without_a_mesh_is_the_formula_or_refuses(report, name, way):
    assert len(report[way]) >= 5
    for case_name, outcomes in report[way].items():
        assert wrong(case_name, name, outcomes[name]) == [], case_name


@pytest.mark.parametrize("name", LOCAL)
def test_a_kernel_that_the_compiler_cannot_divide_is_divided_by_rows_and_heads(report, name):
    parts = {case_name: outcomes[name].get("parts") for case_name, outcomes in report["with_a_mesh"].items()}
    expected = {
        case_name: parts_of(case.doubled) for case_name, case in CASES.items() if parts[case_name] is not None
    }
    assert {case_name: parts[case_name] for case_name in expected} == expected
    assert {2, 4, 8} <= {*expected.values()} or name == "decode"


def parts_of(case):
    """Rows are shared by four devices and key heads by two, where they divide evenly."""
    return (4 if case.B % 4 == 0 else 1) * (2 if case.K % 2 == 0 else 1)
