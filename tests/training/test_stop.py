"""A signal is a request to stop, whenever it comes; printing that nobody reads is no reason to."""

import os
import signal

import pytest
from program import nobody_reading

from jaxgpt.training.console import Console
from jaxgpt.training.stop import watch_for_stop


def send(number):
    os.kill(os.getpid(), number)


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


LINE = ("loss", "grad_norm", "learning_rate", "tokens_per_second", "loader_share")


def test_a_progress_bar_that_nobody_reads_is_no_failure_either(tiny, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")  # Rich takes the pipe for a terminal
    with nobody_reading(monkeypatch):
        console = Console()
        console.start(tiny(), 0, fresh=False)
        console.step(2, dict.fromkeys(LINE, 1.0), logged=False)
        console.close()
    assert "goes on in silence" in capsys.readouterr().err
