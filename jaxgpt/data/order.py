"""Which example stands at each place of an endless sequence: a pure function of the seed, computed, never stored."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import Protocol

import grain
import numpy as np

from jaxgpt.config import RequestError

# A turn of a mixture is laid out in memory; so many places hold shares of four digits, with room to spare.
LONGEST_TURN = 100_000


class Order(Protocol):
    """An endless sequence of examples."""

    def examples_at(self, places_B: np.ndarray) -> np.ndarray:
        """Return the examples at some places, int64 [B]; any place costs the same."""
        ...


class Epochs:
    """Every example once per epoch, in a new order each epoch.

    An epoch's order is a permutation that is computed, so that a run resumes anywhere without replaying.

    Args:
        count: Number of examples, the length of an epoch.
        seed: Of the order, 0..2^32 - 1.

    Example:
        >>> order = Epochs(3, seed=0)
        >>> sorted(order.examples_at(np.arange(3)).tolist()), sorted(order.examples_at(np.arange(3, 6)).tolist())
        ([0, 1, 2], [0, 1, 2])
    """

    def __init__(self, count: int, *, seed: int) -> None:
        # `.seed` hashes the seed before the shuffle adds the epoch to it; `.shuffle(seed=s)` would make the
        # second epoch of seed 1 the first epoch of seed 2.
        self._shuffled = grain.MapDataset.range(count).seed(seed).shuffle().repeat()

    def examples_at(self, places_B: np.ndarray) -> np.ndarray:
        """Return the examples at some places, int64 [B]."""
        return np.array([self._shuffled[int(place)] for place in places_B], np.int64)


class Mixed:
    """Several orders by weight, their examples numbered one after another.

    The places of a turn are shared out once: after any number of places each order has had its exact share, within
    one place. (Each order's j-th place has a first and a last moment at which that still holds, and of those whose
    first moment has come, the one whose last comes soonest is taken: Liu and Layland 1973, section 7.)

    Args:
        orders: What is mixed.
        counts: Number of examples of each.
        weights: Of each, in any proportion.

    Raises:
        RequestError: weights in a proportion of numbers so large that a turn would have more than `LONGEST_TURN`
            places.

    Example:
        >>> mixed = Mixed([Epochs(1, seed=0), Epochs(1, seed=0)], counts=[1, 1], weights=[0.75, 0.25])
        >>> mixed.examples_at(np.arange(8)).tolist()
        [0, 0, 0, 1, 0, 0, 0, 1]
    """

    def __init__(self, orders: Sequence[Order], *, counts: Sequence[int], weights: Sequence[float]) -> None:
        shares = whole_shares(weights)
        self._orders, self._shares_M = orders, np.array(shares)
        self._begins_M = np.cumsum([0, *counts[:-1]])
        self._turn_P = _share_out(shares)
        had_PM = np.cumsum(self._turn_P[:, None] == np.arange(len(shares)), axis=0)
        self._before_P = had_PM[np.arange(len(self._turn_P)), self._turn_P] - 1

    def counts_before(self, place: int) -> np.ndarray:
        """Return how many of the places 0..place-1 each order has, int64 [M]."""
        turns, rest = divmod(place, len(self._turn_P))
        return turns * self._shares_M + np.bincount(self._turn_P[:rest], minlength=len(self._shares_M))

    def examples_at(self, places_B: np.ndarray) -> np.ndarray:
        """Return the examples at some places, int64 [B]."""
        turns_B, places_in_turn_B = np.divmod(places_B, len(self._turn_P))
        sources_B = self._turn_P[places_in_turn_B]
        own_B = turns_B * self._shares_M[sources_B] + self._before_P[places_in_turn_B]
        examples_B = self._begins_M[sources_B]
        for m, order in enumerate(self._orders):
            is_own_B = sources_B == m
            examples_B[is_own_B] += order.examples_at(own_B[is_own_B])
        return examples_B


def whole_shares(weights: Sequence[float]) -> list[int]:
    """Return the smallest whole numbers in the proportion of `weights`, which count as they are written.

    Raises:
        RequestError: their sum is above `LONGEST_TURN`.

    Example:
        >>> whole_shares([0.7, 0.2, 0.1]), whole_shares([30, 10])
        ([7, 2, 1], [3, 1])
    """
    fractions = [Fraction(str(weight)) for weight in weights]
    whole = [int(fraction * lcm(*(f.denominator for f in fractions))) for fraction in fractions]
    shares = [number // gcd(*whole) for number in whole]
    if sum(shares) > LONGEST_TURN:
        near = ",".join(f"{max(float(fraction / sum(fractions)), 1e-4):.4f}" for fraction in fractions)
        raise RequestError(
            f"data.weights: expected numbers in the proportion of whole numbers that add up to at most "
            f"{LONGEST_TURN:,}, got {', '.join(f'{weight:g}' for weight in weights)}, which take {sum(shares):,}; "
            f"give shares of at most four digits, such as {near}"
        )
    return shares


def _share_out(shares: Sequence[int]) -> np.ndarray:
    """Return which order has each place of one turn, int64 [P]; order m has shares[m] of them, evenly spread."""
    P = sum(shares)
    waiting = [(0, m, 0) for m in range(len(shares))]  # (first moment, order, places that it has had)
    ready: list[tuple[int, int, int]] = []  # (last moment, order, places that it has had)
    turn = np.empty(P, np.int64)
    heapq.heapify(waiting)
    for place in range(P):
        while waiting and waiting[0][0] <= place:
            _, m, had = heapq.heappop(waiting)
            heapq.heappush(ready, (-(-(had + 1) * P // shares[m]), m, had))
        _, turn[place], had = heapq.heappop(ready)
        m = int(turn[place])
        heapq.heappush(waiting, ((had + 1) * P // shares[m], m, had + 1))
    return turn
