"""How a run can end besides well: what is saved, and what is said."""

import errno
import os
import signal

import pytest

from jaxgpt.config import WorkError
from jaxgpt.runs import checkpoints
from jaxgpt.runs.step_folders import saved_steps
from jaxgpt.training.run import train
from jaxgpt.training.stop import StoppedError


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


def refuse(_step, *_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_stop_saves_although_the_save_before_it_failed(tiny, run, handled, monkeypatch, capsys):
    real, calls = checkpoints.make_record, []

    def make_record(step, *arguments):
        calls.append(step)
        if len(calls) == 1:
            os.kill(os.getpid(), signal.SIGTERM)
            refuse(step)
        return real(step, *arguments)

    monkeypatch.setattr(checkpoints, "make_record", make_record)
    with pytest.raises(StoppedError, match="saved; continue with") as stopped:
        train(tiny({"train.eval_every": 100}), out=run)
    assert (stopped.value.exit_code, handled) == (143, [])
    assert saved_steps(run / "checkpoints") in ([2], [3])  # the signal came while a step was running, or before it
    assert capsys.readouterr().err.startswith("jaxgpt: warning: checkpoint 2 was not written")


def test_a_step_that_is_not_finite_is_named_also_where_the_disk_is_full(tiny, run, poison, monkeypatch):
    poison({1})
    monkeypatch.setattr(checkpoints, "make_record", refuse)
    message = r"^step 2 is not finite: .*; the state after step 1 is not saved: checkpoint 1 was not .* device;"
    with pytest.raises(WorkError, match=message):
        train(tiny(), out=run)
