"""Timing in turn: every program a few calls a round, round after round, each in another order."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

Measured = TypeVar("Measured")

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

    A turn is one call, or several of a short program. The order of the turns is drawn anew each round, so that no
    program always follows the same one.

    Args:
        calls: Each runs a program once and returns when it is done.
        seconds_each: Time for all together, divided by their number. At least `LEAST_ROUNDS` rounds are run, and at
            most `MOST_ROUNDS`.

    Returns:
        Seconds of a call, by name.
    """
    turns = {name: turn_length(min(_seconds(call) for _ in range(3))) for name, call in calls.items()}
    measures = {name: functools.partial(_seconds, call) for name, call in calls.items()}
    round_seconds = sum(sum(measure() for _ in range(turns[name])) for name, measure in measures.items())
    rounds = max(LEAST_ROUNDS, min(MOST_ROUNDS, int(len(calls) * seconds_each / max(round_seconds, 1e-9))))
    return {name: spread(seconds) for name, seconds in measured_in_turn(measures, turns, rounds).items()}


def measured_in_turn(
    measures: Mapping[str, Callable[[], Measured]], turns: Mapping[str, int], rounds: int
) -> dict[str, list[Measured]]:
    """Return what each measurement found, round after round, in an order drawn anew each round from one seed.

    Args:
        measures: Each measures once.
        turns: How many times in a row each does so in a round; of several the first only warms the caches and is
            left out.
        rounds: How many rounds.

    Example:
        >>> {name: len(found) for name, found in measured_in_turn({"a": int, "b": int}, {"a": 1, "b": 3}, 4).items()}
        {'a': 4, 'b': 8}
    """
    found: dict[str, list[Measured]] = {name: [] for name in measures}
    names, rng = list(measures), np.random.default_rng(0)
    for _ in range(rounds):
        for name in (names[n] for n in rng.permutation(len(names))):
            turn = [measures[name]() for _ in range(turns[name])]
            found[name] += turn[1:] or turn
    return found


def turn_length(quickest: float) -> int:
    """Return how many calls of so many seconds make a turn.

    >>> turn_length(1.0), turn_length(0.002)
    (1, 5)
    """
    return int(np.clip(_SHORT / max(quickest, 1e-9), 1, 10))


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    result = call()
    seconds = time.perf_counter() - start
    del result  # its memory is given back outside the measured time
    return seconds
