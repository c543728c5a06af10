"""A run so small that training it takes a second or two."""

import contextlib
import signal

import numpy as np
import pytest
from small_training import TEXT, TINY

from jaxgpt.config import RunConfig, apply_settings
from jaxgpt.training import loop


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def tiny(text_file):
    """Return the tiny config, with flat settings laid over it."""

    def make(settings=()):
        return apply_settings(RunConfig(), TINY | {"data.path": str(text_file)} | dict(settings), "test")

    return make


@pytest.fixture
def handled():
    """The signals that this test's own handlers were called with, in place of what the test runner had."""
    calls = []
    before = {n: signal.signal(n, lambda n, _: calls.append(n)) for n in (signal.SIGTERM, signal.SIGHUP)}
    yield calls
    for number, handler in before.items():
        signal.signal(number, handler)


class Poisoned:
    """A run's batches, of which some count tokens with weights that are not numbers; steps count from 0."""

    def __init__(self, batches, bad):
        self._batches, self._bad = batches, bad

    def __getattr__(self, name):
        return getattr(self._batches, name)

    def batch_at(self, step):
        return self._spoilt(step, self._batches.batch_at(step))

    @contextlib.contextmanager
    def stream(self, start):
        with self._batches.stream(start) as stream:
            yield (self._spoilt(step, batch) for step, batch in enumerate(stream, start))

    def _spoilt(self, step, batch):
        return batch | ({"weights_BT": batch["weights_BT"] * np.nan} if step in self._bad else {})


@pytest.fixture
def poison(monkeypatch):
    """Return a function that spoils the batches of those steps of every run that follows."""
    real = loop.training_batches

    def spoil(bad):
        monkeypatch.setattr(loop, "training_batches", lambda material: Poisoned(real(material), bad))

    return spoil
