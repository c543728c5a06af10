"""Stopped and resumed = never stopped, bitwise: parameters, moments, logged losses; with dropout and accumulation."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from repeatable import repeatable_metrics

from jaxgpt.config import RunConfig, apply_settings
from jaxgpt.runs import checkpoints
from jaxgpt.training import loop
from jaxgpt.training.run import train
from jaxgpt.training.stop import StoppedError

CHILD = Path(__file__).with_name("resume_devices_child.py")
SETTINGS = {
    "model.attention_bias": False,  # the fewer parameters, the sooner the train step is compiled
    "model.attention_out_bias": False,
    "model.ffn_bias": False,
    "model.norm_bias": False,
    "model.context_length": 8,
    "model.width": 16,
    "model.layers": 1,
    "model.heads": 2,
    "model.embedding_dropout": 0.1,
    "model.attention_dropout": 0.1,
    "model.residual_dropout": 0.1,
    "train.steps": 9,
    "train.batch_size": 6,
    "train.accumulate": 3,
    "train.eval_every": 4,
    "train.eval_batches": 2,
    "train.save_every": 5,
    "train.log_every": 1,
    "train.sample_tokens": 0,
    "optimizer.warmup_steps": 2,
}


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    text = tmp_path_factory.mktemp("text") / "text.txt"
    text.write_text("".join(chr(97 + i * i % 26) for i in range(200)))  # 172 windows: an epoch ends inside the run
    return SETTINGS | {"data.path": str(text), "train.steps": 40}


@pytest.fixture(scope="module")
def uninterrupted(settings, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    return train(apply_settings(RunConfig(), settings, "test"), out=out), repeatable_metrics(out)


@pytest.fixture
def resumed(settings, tmp_path):
    """Return a function that trains into one run directory, with settings laid over the common ones."""

    def run(changes):
        return train(apply_settings(RunConfig(), settings | changes, "test"), out=tmp_path / "run")

    return run


def check_same(state, run, uninterrupted):
    whole, lines = uninterrupted
    leaves = zip(jax.tree.leaves(state), jax.tree.leaves(whole), strict=True)
    assert all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in leaves)
    assert repeatable_metrics(run) == lines
    assert len(lines) == 40 + 10


STOPS = [[3, 20, 33], pytest.param(list(range(1, 40)), marks=pytest.mark.ci)]


@pytest.mark.parametrize("stops", STOPS, ids=["a few steps", "every step"])
def test_a_run_stopped_anywhere_ends_bit_for_bit_as_if_it_had_not_been(uninterrupted, resumed, tmp_path, stops):
    for stop in [*stops, None]:
        state = resumed({"train.stop_after": stop})
    check_same(state, tmp_path / "run", uninterrupted)


@pytest.mark.parametrize(
    ("module", "name", "time"), [(loop, "evaluate", 5), (checkpoints, "make_record", 7)], ids=["evaluation", "save"]
)
def test_a_signal_inside_an_evaluation_or_a_save_loses_nothing(
    uninterrupted, resumed, tmp_path, monkeypatch, module, name, time
):
    real, calls = getattr(module, name), []

    def interrupted(*arguments):
        calls.append(name)
        if len(calls) == time:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(*arguments)

    monkeypatch.setattr(module, name, interrupted)
    with pytest.raises(StoppedError):
        resumed({"train.save_minutes": 1e-9})  # after every step, besides the best
    assert len(calls) >= time
    state = resumed({})
    check_same(state, tmp_path / "run", uninterrupted)


@pytest.mark.ci
def test_a_run_that_moves_to_other_numbers_of_devices_ends_where_it_would_have_within_rounding():
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run([sys.executable, CHILD], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["devices"] == [1, 2, 4, 1]
    assert done.stderr.count("bit for bit those of a run that never stopped only on the same devices") == 3
    assert report["parameters"] <= 1e-6
    assert report["losses"] <= 1e-6
    assert report["learned"] > 1e-3
