"""Heads, or else rows, are divided among CPU devices, and every result is still right."""

import json
import os
import subprocess
import sys

import jax
import pytest

from jaxgpt.benchmark.division import divisions
from jaxgpt.benchmark.workload import parse_shape

COMPILED = ("reference", "dense", "blocked", "jax.nn", "flax.linen", "ffn", "block")


@pytest.mark.parametrize(
    ("shape", "count", "expected"),
    [
        ("1x8x12x4", 8, ["1 device", "6 devices, heads divided"]),
        ("1x8x12x4x4", 8, ["1 device", "4 devices, heads divided"]),
        ("6x8x4x4x1", 4, ["1 device", "3 devices, rows divided"]),
        ("1x8x3x4", 2, ["1 device"]),
    ],
)
def test_heads_come_before_rows(monkeypatch, shape, count, expected):
    monkeypatch.setattr(jax, "devices", lambda: [None] * count)
    workload = parse_shape(shape)
    assert [str(division) for division in divisions(workload, "both")] == expected
    assert [str(division) for division in divisions(workload, "all")] == expected[-1:]
    assert [str(division) for division in divisions(workload, "one")] == ["1 device"]


def test_an_accelerator_is_one_device(monkeypatch):
    monkeypatch.setattr(jax, "devices", lambda: [None] * 8)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert [division.devices for division in divisions(parse_shape("8x8x8x4"), "both")] == [1]


@pytest.mark.ci  # a child process with devices of its own, and twelve compilations
def test_every_compiled_contestant_is_right_on_all_devices():
    command = [sys.executable, "-m", "jaxgpt.benchmark", "attention", "--devices", "all", "--seconds", "0.001"]
    command += ["--shapes", "1x8x4x4x2", "2x8x2x4x1", "1x8x2x4", "--json", "--contestants", *COMPILED]
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=2"
    environment = os.environ | {"XLA_FLAGS": flags}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    compiled = [row for row in json.loads(done.stdout)["rows"] if row["mode"] == "jit" and "seconds" in row]
    divided = {(row["contestant"], row["devices"].split(", ")[-1]) for row in compiled}
    for name in COMPILED:
        assert (name, "heads divided") in divided
        assert (name, "rows divided") in divided or name == "flax.linen"
