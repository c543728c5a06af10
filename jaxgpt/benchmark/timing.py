"""Timing in turn: every program a few calls a round, round after round, each in another order."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

LEAST_ROUNDS, MOST_ROUNDS = 4, 200
_SHORT = 0.01  # seconds: a turn of calls shorter than this holds several


class Spread(NamedTuple):
    """Seconds of one call: median, 10th and 90th percentile, and how many calls they come from."""

    median: float
    p10: float
    p90: float
    calls: int


def spread(seconds: list[float]) -> Spread:
    """Return the percentiles of measured times.

    >>> spread([3.0, 1.0, 2.0])
    Spread(median=2.0, p10=1.2, p90=2.8, calls=3)
    """
    p10, median, p90 = np.percentile(seconds, (10, 50, 90)).tolist()
    return Spread(round(median, 9), round(p10, 9), round(p90, 9), len(seconds))


def time_in_turn(calls: Mapping[str, Callable[[], Any]], seconds_each: float) -> dict[str, Spread]:
    """Time programs against each other.

    A turn is one call, or several of a short program, of which the first then only warms the caches. The order of the
    turns is drawn anew each round, from one seed, so that no program always follows the same one.

    Args:
        calls: Each runs a program once and returns when it is done.
        seconds_each: Time for all together, divided by their number. At least `LEAST_ROUNDS` rounds are run, and at
            most `MOST_ROUNDS`.

    Returns:
        Seconds of a call, by name.
    """
    turns = {name: _turn_length(call) for name, call in calls.items()}
    round_seconds = sum(_turn(call, turns[name])[1] for name, call in calls.items())
    rounds = max(LEAST_ROUNDS, min(MOST_ROUNDS, int(len(calls) * seconds_each / max(round_seconds, 1e-9))))
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    names, rng = list(calls), np.random.default_rng(0)
    for _ in range(rounds):
        for name in (names[n] for n in rng.permutation(len(names))):
            seconds[name] += _turn(calls[name], turns[name])[0]
    return {name: spread(measured) for name, measured in seconds.items()}


def _turn_length(call: Callable[[], Any]) -> int:
    """Return how many calls a turn holds; what it takes to find out warms the program up."""
    quickest = min(_seconds(call) for _ in range(3))
    return int(np.clip(_SHORT / max(quickest, 1e-9), 1, 10))


def _turn(call: Callable[[], Any], length: int) -> tuple[list[float], float]:
    """Return the seconds of each call that counts, and of all."""
    measured = [_seconds(call) for _ in range(length)]
    return measured[1:] or measured, sum(measured)


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    result = call()
    seconds = time.perf_counter() - start
    del result  # its memory is given back outside the measured time
    return seconds
