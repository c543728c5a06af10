"""Every attention kernel of the CPU, divided among 8 devices, is the float64 formula in values and gradients."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jaxgpt.ops.attention import KERNELS

pytestmark = pytest.mark.ci  # a minute of compilation

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


@pytest.mark.parametrize("way", ["with_a_mesh", "by_its_arguments", "inside_shard_map"])
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_on_eight_devices_is_the_formula(report, name, way):
    outcomes = report[way][name]
    if "cpu" not in KERNELS[name].platforms:
        assert all("not on cpu" in outcome["refused"] for outcome in outcomes.values())
        return
    why = {case: outcome["refused"] for case, outcome in outcomes.items() if "refused" in outcome}
    refused = {case for case, reason in why.items() if "decodes only" not in reason}
    assert name == "decode" or refused == set(why)
    assert len(outcomes) >= 6
    assert refused <= ({"dropout"} if not KERNELS[name].dropout else set())
    assert {case: outcome["wrong"] for case, outcome in outcomes.items() if outcome.get("wrong")} == {}


@pytest.mark.parametrize("name", LOCAL)
def test_a_kernel_that_the_compiler_cannot_divide_is_divided_by_rows_and_heads(report, name):
    parts = {case: outcome["parts"] for case, outcome in report["with_a_mesh"][name].items() if "parts" in outcome}
    assert parts.pop("one key head, which two devices cannot share") == 4
    assert parts.pop("three rows, which four devices cannot share") == 2
    assert set(parts.values()) == {8}
