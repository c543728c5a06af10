"""Where the time of a run goes: steps, waiting for data, everything else."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class Clock:
    """Adds up elapsed seconds under names; a name may run inside another.

    Example:
        >>> clock = Clock()
        >>> with clock.measure("training"):
        ...     pass
        >>> clock.seconds("training") >= 0, clock.seconds("never started")
        (True, 0.0)
    """

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._started: dict[str, float] = {}

    @contextlib.contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Add the block's elapsed time to `name`."""
        self._started[name] = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = self.seconds(name)
            del self._started[name]

    def add(self, name: str, seconds: float) -> None:
        """Add seconds that were measured elsewhere."""
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def seconds(self, name: str) -> float:
        """Return the seconds added up under `name`, those of a block that is still running included."""
        running = time.perf_counter() - self._started[name] if name in self._started else 0.0
        return self._seconds.get(name, 0.0) + running
