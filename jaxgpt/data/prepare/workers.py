"""Jobs done by threads, results in the jobs' order; only a few jobs are held at a time.

Threads are enough: the libraries that encode let go of Python's lock.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, TimeoutError
from typing import Any, TypeVar

Work = TypeVar("Work")
Result = TypeVar("Result")

_NAME = "jaxgpt-prepare"
_PATIENCE = 0.1  # seconds between two looks at whether the caller wants to stop


def in_order(
    work: Callable[[Work], Result], jobs: Iterator[Work], workers: int, idle: Callable[[], None]
) -> Iterator[tuple[Work, Result]]:
    """Yield each job and its result, in order.

    An error in making the jobs is raised after the results of those before it.

    Args:
        work: done by the threads.
        jobs: taken by this thread, at most two for each worker ahead of the results.
        workers: number of threads.
        idle: called while results are waited for; what it raises ends the iteration at once.

    Example:
        >>> list(in_order(abs, iter([-3, 2]), 2, lambda: None))
        [(-3, 3), (2, 2)]
    """
    tasks: queue.SimpleQueue[tuple[Future[Result], Work] | None] = queue.SimpleQueue()
    for _ in range(workers):
        threading.Thread(target=_serve, args=(work, tasks), name=_NAME, daemon=True).start()
    waiting: deque[tuple[Work, Future[Result]]] = deque()
    failure: Exception | None = None
    try:
        while True:
            while len(waiting) < 2 * workers and failure is None:
                try:
                    job = next(jobs)
                except Exception as error:  # StopIteration among them
                    failure = error
                    break
                waiting.append((job, Future()))
                tasks.put((waiting[-1][1], job))
            if not waiting:
                break
            job, future = waiting.popleft()
            yield job, _result(future, idle)
    finally:
        _dismiss(tasks, workers)
    if not isinstance(failure, StopIteration):
        raise failure


def _result(future: Future[Result], idle: Callable[[], None]) -> Result:
    while True:
        idle()
        with contextlib.suppress(TimeoutError):
            return future.result(_PATIENCE)


def _serve(work: Callable[[Any], Any], tasks: queue.SimpleQueue[Any]) -> None:
    while (task := tasks.get()) is not None:
        future, job = task
        try:
            future.set_result(work(job))
        except BaseException as error:
            future.set_exception(error)


def _dismiss(tasks: queue.SimpleQueue[Any], workers: int) -> None:
    with contextlib.suppress(queue.Empty):
        while True:
            tasks.get_nowait()
    for _ in range(workers):
        tasks.put(None)


def still_running(seconds: float) -> bool:
    """Return whether a dismissed worker is still at its last job after that time."""
    end = time.monotonic() + seconds
    for thread in threading.enumerate():
        if thread.name == _NAME:
            thread.join(max(0.0, end - time.monotonic()))
    return any(thread.name == _NAME for thread in threading.enumerate())
