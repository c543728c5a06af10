"""SIGINT, SIGTERM and SIGHUP as a request: the step in flight ends, the state is saved, then the process stops."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from jaxgpt.config import JaxgptError

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class StoppedError(JaxgptError):
    """Training was stopped by a signal; the message says what is saved."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


class StopRequest:
    """Remembers the first signal that asked the process to stop.

    Args:
        handlers: What each signal did before, and does again when it comes a second time.
    """

    def __init__(self, handlers: Mapping[int, Any]) -> None:
        self.signal_number: int | None = None
        self._handlers = handlers

    def note(self, signal_number: int, _frame: object) -> None:
        """Record the signal."""
        if self.signal_number is None:
            self.signal_number = signal_number
        signal.signal(signal_number, self._handlers[signal_number])


@contextlib.contextmanager
def watch_for_stop() -> Iterator[StopRequest]:
    """Turn SIGINT, SIGTERM and SIGHUP into a `StopRequest` while the block runs (only possible in the main thread).

    What is ignored stays ignored, as `nohup` wants it.
    """
    handlers = _replaceable_handlers() if threading.current_thread() is threading.main_thread() else {}
    request = StopRequest(handlers)
    for number in handlers:
        signal.signal(number, request.note)
    try:
        yield request
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def told_how_to_continue(command: str) -> Iterator[None]:
    """Say with what a run goes on where Ctrl-C ends the block at once: before the first step, or pressed twice."""
    try:
        yield
    except KeyboardInterrupt:
        raise StoppedError(f"interrupted; continue with: {command}", signal.SIGINT) from None


def _replaceable_handlers() -> dict[int, Any]:
    """Return {signal: its handler} of those not ignored; None is a handler that Python could not put back."""
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    return {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}
