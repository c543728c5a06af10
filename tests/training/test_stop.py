"""A signal is a request to stop, whenever it comes; printing that nobody reads is no reason to."""

import os
import signal

import pytest
from program import nobody_reading

from jaxgpt.runs.checkpoints import CheckpointStore
from jaxgpt.training.console import Console
from jaxgpt.training.run import train
from jaxgpt.training.stop import StoppedError, watch_for_stop


def send(number):
    os.kill(os.getpid(), number)


@pytest.fixture
def handled():
    """The signals that this test's own handlers were called with, in place of what the test runner had."""
    calls = []
    before = {n: signal.signal(n, lambda n, _: calls.append(n)) for n in (signal.SIGTERM, signal.SIGHUP)}
    yield calls
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=str)
def test_the_first_signal_is_noted_and_the_second_does_what_it_did_before(handled, number):
    with watch_for_stop() as request:
        send(number)
        assert (request.signal_number, handled) == (number, [])
        send(number)
        assert handled == [number]
    send(number)
    assert handled == [number] * 2


def test_the_first_of_two_different_signals_counts(handled):
    with watch_for_stop() as request:
        send(signal.SIGTERM)
        send(signal.SIGHUP)
    assert (request.signal_number, handled) == (signal.SIGTERM, [])


def test_a_signal_that_is_ignored_stays_ignored(handled):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    with watch_for_stop() as request:
        send(signal.SIGHUP)
    assert request.signal_number is None
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


@pytest.mark.parametrize("step", [1, 6], ids=["the first checkpoint", "the last checkpoint"])
def test_a_signal_during_the_commit_of_a_checkpoint_ends_the_run_saved(tiny, tmp_path, handled, monkeypatch, step):
    wait = CheckpointStore.wait

    def interrupted(store):
        wait(store)
        if store.steps()[-1:] == [step] and not sent:
            sent.append(step)
            send(signal.SIGTERM)

    sent = []
    monkeypatch.setattr(CheckpointStore, "wait", interrupted)
    with pytest.raises(StoppedError, match=f"continue with: jaxgpt train --out {tmp_path / 'run'}") as stopped:
        train(tiny({"train.save_every": 1}), out=tmp_path / "run")
    assert (stopped.value.exit_code, handled) == (143, [])
    assert CheckpointStore(tmp_path / "run" / "checkpoints", writable=False).steps()[-1] == (6 if step == 6 else 2)


def test_a_run_whose_output_nobody_reads_goes_on_in_silence(tiny, tmp_path, monkeypatch, capsys):
    with nobody_reading(monkeypatch):
        state = train(tiny(), out=tmp_path / "run")
    assert int(state.step) == 6
    assert CheckpointStore(tmp_path / "run" / "checkpoints", writable=False).steps()[-1] == 6
    error = capsys.readouterr().err
    assert error.startswith("jaxgpt: warning: standard output: Broken pipe; the run goes on in silence, ")
    assert error.count("\n") == 1


def test_a_progress_bar_that_nobody_reads_is_no_failure_either(tiny, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")  # Rich takes the pipe for a terminal
    with nobody_reading(monkeypatch):
        console = Console()
        console.start(tiny(), 0, fresh=False)
        console.step(2, {"loss": 1.0}, tokens_per_second=1.0, shown=False)
        console.close()
    assert "goes on in silence" in capsys.readouterr().err
