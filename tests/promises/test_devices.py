"""1 device = 8 devices that share the batch, with and without dropout.

Gradients and parameters within 1e-6 of the largest; with AdamW's own epsilon within 1e-2 of the learning rate, except
the biases of the keys, whose exact gradient is zero.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.ci  # a minute of compilation

CHILD = Path(__file__).with_name("devices_child.py")


@pytest.fixture(scope="module")
def report():
    """How far apart 1 and 8 devices end, measured in a process that has 8 CPU devices."""
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run([sys.executable, CHILD], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_process_had_eight_devices(report):
    assert report["devices"] == 8


@pytest.mark.parametrize("name", ["gradients", "gradients with dropout"])
def test_gradients_are_the_same(report, name):
    assert report[name] <= 1e-6


def test_the_dropout_that_devices_agree_on_is_not_idle(report):
    assert report["what dropout changes"] > 0.1


@pytest.mark.parametrize("name", ["sgd with dropout", "adamw with a large epsilon"])
def test_parameters_after_three_steps_are_the_same(report, name):
    assert report[name] <= 1e-6
    assert min(report["learned"]) > 1e-3


def test_parameters_after_three_steps_of_default_adamw_differ_by_little_of_the_learning_rate(report):
    assert report["default adamw, in learning rates"] <= 1e-2
