"""Generation on a mesh of 8 devices gives the ids of one device, from a cache whose rows and heads are divided."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.ci

CHILD = Path(__file__).with_name("decode_devices_child.py")


def test_ids_are_those_of_one_device():
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run([sys.executable, CHILD], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["devices"] == 8
    assert report["spec"] == ["data", "tensor"]
    assert report["eight"] == report["one"]
