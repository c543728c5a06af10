"""How far `jaxgpt data prepare` is: a bar on a terminal, a line now and then elsewhere, on standard error."""

from __future__ import annotations

import contextlib
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from jaxgpt.training.stop import StopRequest

_LINE_EVERY = 10.0  # seconds between two lines where there is no terminal


class Progress:
    """Called with what is done; raises where a signal has asked to stop.

    Args:
        stop: knows of signals.
        again: the command that goes on.
    """

    def __init__(self, stop: StopRequest, again: str) -> None:
        self._stop, self._again = stop, again
        self._bar: Any = None
        self._task: Any = None
        self._what = ""
        self._begun = self._said = time.monotonic()
        self._first = 0

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._bar = _bar()
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, line: str) -> None:
        """Print a line, above the bar where there is one."""
        with contextlib.suppress(OSError):  # nobody reads it any more: the work goes on
            if self._bar is not None:
                self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
            else:
                print(line, file=sys.stderr, flush=True)

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show that of `total` so many are done.

        Raises:
            StoppedError: a signal came.
        """
        if self._stop.signal_number is not None:
            from jaxgpt.training.stop import StoppedError

            raise StoppedError(f"stopped; go on with the same command:\n  {self._again}", self._stop.signal_number)
        if what != self._what:
            self._what, self._first, self._begun = what, done, time.monotonic()
            if self._bar is not None:
                self._task = self._bar.add_task(what, total=total) if self._task is None else self._task
                self._bar.reset(self._task, description=what, completed=done, total=total)
        if self._bar is not None:
            self._bar.update(self._task, completed=done)
        elif time.monotonic() - self._said >= _LINE_EVERY:
            self._said = time.monotonic()
            speed = (done - self._first) / 1e6 / (self._said - self._begun or 1)
            self.say(f"{what}: {done / 1e6:,.1f} of {total / 1e6:,.1f} MB, {speed:.1f} MB/s")


def _bar() -> Any:
    import rich.console
    import rich.progress

    return rich.progress.Progress(
        rich.progress.TextColumn("{task.description}"),
        rich.progress.BarColumn(),
        rich.progress.DownloadColumn(),
        rich.progress.TransferSpeedColumn(),
        rich.progress.TimeRemainingColumn(),
        console=rich.console.Console(stderr=True),
        transient=True,
    )
