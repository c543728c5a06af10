"""SIGINT and SIGTERM as a request: the step in flight ends, the state is saved, then the process stops."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

from jaxgpt.config import JaxgptError


class StoppedError(JaxgptError):
    """Training was asked to stop by a signal; everything is saved."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


class StopRequest:
    """Remembers the first signal that asked the process to stop."""

    def __init__(self) -> None:
        self.signal_number: int | None = None

    def note(self, signal_number: int, _frame: object) -> None:
        """Record the signal; a second one is left to Python's usual handling."""
        self.signal_number = signal_number
        signal.signal(signal_number, signal.SIG_DFL)


@contextlib.contextmanager
def watch_for_stop() -> Iterator[StopRequest]:
    """Turn SIGINT and SIGTERM into a `StopRequest` while the block runs (only possible in the main thread)."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, request.note) for number in numbers}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
