"""A run so small that training it takes a second or two."""

import signal

import pytest
from small_training import TEXT, TINY

from jaxgpt.config import RunConfig, apply_settings


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
