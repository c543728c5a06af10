"""`jaxgpt plot`: what it prints and writes into the picture; that matplotlib draws it, test_curves.py shows."""

import contextlib
from unittest.mock import MagicMock

import pytest

from jaxgpt.config import ModelConfig, RunConfig
from jaxgpt.runs import loss_plot, pictures
from jaxgpt.runs.directory import RunDirectory
from jaxgpt.runs.manifest import Manifest
from jaxgpt.runs.metrics import MetricsLog


@pytest.fixture
def run(tmp_path):
    """Losses of 4, 3, 2 and 1, and one validation."""
    run = RunDirectory.create(tmp_path / "run", Manifest(config=RunConfig(model=ModelConfig(vocab_size=5))))
    with MetricsLog(run) as log:
        for step in (1, 2, 3, 4):
            log.write(step, {"loss": 5.0 - step})
        log.write(4, {"validation_loss": 2.5, "validation_standard_error": 0.1})
    return run.path


@pytest.fixture
def axis(monkeypatch):
    """Return what takes down the calls that would draw."""
    axis = MagicMock()
    monkeypatch.setattr(pictures, "require_extra", lambda *_: None)
    monkeypatch.setattr(loss_plot, "picture", lambda *_, **__: contextlib.nullcontext([axis]))
    return axis


@pytest.mark.parametrize(("smooth", "mean", "last"), [(1, "", "1"), (3, " (mean of 3 logged lines)", "2")])
def test_what_is_smoothed_is_called_a_mean_and_nothing_else_is(command, axis, run, smooth, mean, last):
    code, out, err = command("plot", run, "--out", "losses.png", "--smooth", smooth)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"run: loss{mean} {last} at step 4, lowest {last} at step 4",
        "run: validation_loss 2.5 at step 4, lowest 2.5 at step 4",
        "drawn in losses.png",
    ]
    training, validation = (call.kwargs["label"] for call in axis.plot.call_args_list)
    assert training == f"run, training{mean}"
    assert validation == "run, validation ± standard error (lowest 2.5000 at step 4)"
    axis.set_ylabel.assert_called_once_with("loss, nats per token")
