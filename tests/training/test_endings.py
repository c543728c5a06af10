"""How a run can end besides well: what is saved, and what is said."""

import errno
import os
import signal

import numpy as np
import pytest

from jaxgpt.config import WorkError
from jaxgpt.runs import checkpoints
from jaxgpt.runs.checkpoints import CheckpointStore
from jaxgpt.runs.metrics import read_metrics, sampled_steps
from jaxgpt.runs.step_folders import saved_steps
from jaxgpt.training import loop
from jaxgpt.training.diagnose import UPDATE
from jaxgpt.training.run import train
from jaxgpt.training.stop import StoppedError


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


def refuse(_step, *_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def quick_diagnosis(monkeypatch):
    """The diagnosis of a poisoned batch without the seconds that tracing it takes; test_step has the real one."""

    def first_non_finite(_model, _execution, _params, micro_batches, _key):
        return "loss" if np.isnan(micro_batches["weights_BT"]).any() else UPDATE

    monkeypatch.setattr(loop, "first_non_finite", first_non_finite)


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


@pytest.fixture
def terminate_at(monkeypatch):
    """Return a function that has a SIGTERM sent as soon as the checkpoint of a step counts."""
    wait, sent = CheckpointStore.wait, []

    def waited(store, step):
        wait(store)
        if store.steps()[-1:] == [step] and not sent:
            sent.append(step)
            os.kill(os.getpid(), signal.SIGTERM)

    return lambda step: monkeypatch.setattr(CheckpointStore, "wait", lambda store: waited(store, step)) or sent


def test_a_signal_during_the_commit_of_a_checkpoint_ends_the_run_saved(tiny, run, handled, terminate_at):
    terminate_at(1)
    with pytest.raises(StoppedError, match=f"continue with: jaxgpt train --out {run}") as stopped:
        train(tiny({"train.save_every": 1}), out=run)
    assert (stopped.value.exit_code, handled) == (143, [])
    assert saved_steps(run / "checkpoints") == [1, 2]


def test_a_signal_during_the_last_save_of_a_complete_run_changes_nothing(tiny, run, handled, terminate_at, capsys):
    sent = terminate_at(6)
    assert int(train(tiny({"train.sample_tokens": 3}), out=run).step) == 6
    assert (sent, handled) == ([6], [])
    printed = capsys.readouterr().out
    assert "step      6  sample (temperature 0.8, 3 tokens):\n" in printed
    assert "done; continue for longer" in printed
    (run / "samples.jsonl").write_text('{"step": 6, "te')  # as if killed while it wrote the sample
    for is_drawn in (True, False):
        train(tiny({"train.sample_tokens": 3}), out=run)
        printed = capsys.readouterr().out
        assert "nothing to do: the run is at step 6 of 6\n" in printed
        assert ("step      6  sample (temperature 0.8, 3 tokens):\n" in printed) == is_drawn
        assert "last checkpoint: step 6, validation loss " in printed
        assert sampled_steps(run / "samples.jsonl") == [6]


@pytest.mark.parametrize(("bad", "is_skipping_advised"), [({1}, True), ({1, 2}, False)])
def test_a_step_that_is_not_finite_is_named_also_where_the_disk_is_full(
    tiny, run, poison, quick_diagnosis, monkeypatch, bad, is_skipping_advised
):
    poison(bad)
    monkeypatch.setattr(checkpoints, "make_record", refuse)
    message = r"^step 2 is not finite: .*; the state after step 1 is not saved: checkpoint 1 was not .* device;"
    with pytest.raises(WorkError, match=message) as caught:
        train(tiny(), out=run)
    assert (
        "with --train.non_finite skip (the next batch is finite), then: " in str(caught.value)
    ) == is_skipping_advised


def test_a_run_that_skips_one_step_after_the_other_ends_as_if_it_were_not_to_skip(
    tiny, run, poison, quick_diagnosis, monkeypatch, capsys
):
    monkeypatch.setattr(loop, "MOST_SKIPPED_IN_A_ROW", 3)
    poison({0, 1, 3, 4, 5})
    message = r"^step 6 is not finite, the last of 3 in a row that were skipped: the first bad tensor is loss "
    with pytest.raises(WorkError, match=message) as caught:
        train(tiny({"train.non_finite": "skip"}), out=run)
    assert "clip_norm, then: jaxgpt train" in str(caught.value)
    assert (
        saved_steps(run / "checkpoints")[-1] == len(read_metrics(run / "metrics.jsonl")) - 2 == 6
    )  # and 2 validations
    printed = capsys.readouterr().out
    assert printed.count("not finite, skipped (its batch: ") == 3
    assert "step      6  not finite, skipped; 5 skipped so far\n" in printed
