"""Examples of several files: numbered one after another, and trained on by weight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .examples import Batch, Examples
from .order import Epochs, Mixed, Order


class Mixture:
    """The examples of several files as one split.

    Training takes each file's share by its weight, and each file's examples without repetition until all have come;
    the same numbers weigh the files' losses in an evaluation.

    Args:
        parts: The examples of each file.
        weights: Of each file, in any proportion.
        names: Of the files.

    Example:
        >>> from .examples import Windows
        >>> parts = [Windows(np.arange(size, dtype=np.int32), context_length=4) for size in (6, 9)]
        >>> mixture = Mixture(parts, weights=[3, 1], names=["a", "b"])
        >>> mixture.count, mixture.place(2), mixture.tiling.tolist()
        (7, 'the window at token 0 of b', [0, 2, 6])
    """

    def __init__(self, parts: Sequence[Examples], *, weights: Sequence[float], names: Sequence[str]) -> None:
        self.parts, self.names = tuple(parts), tuple(names)
        self.shares = tuple(weight / sum(weights) for weight in weights)
        self._weights = tuple(weights)
        self._ends_M = np.cumsum([part.count for part in parts])
        self.order(seed=0)  # refuses weights that no turn holds, before a run begins

    @property
    def count(self) -> int:
        """Number of examples of all files."""
        return int(self._ends_M[-1])

    @property
    def tiling(self) -> np.ndarray:
        """The examples that cover each file, one file after another."""
        return np.concatenate([self._begin(m) + part.tiling for m, part in enumerate(self.parts)])

    def counts_before(self, place: int) -> np.ndarray:
        """Return how many of the first `place` examples of training are of each file, int64 [M]."""
        return self.order(seed=0).counts_before(place)  # the seed changes which ones, not whose

    def order(self, *, seed: int) -> Mixed:
        """Return the order of training: each file's own order, mixed by weight."""
        seeds = np.random.SeedSequence(seed).generate_state(len(self.parts))
        orders = [Epochs(part.count, seed=int(own)) for part, own in zip(self.parts, seeds, strict=True)]
        return Mixed(orders, counts=[part.count for part in self.parts], weights=self._weights)

    def batch(self, examples_B: np.ndarray, *, seed: int, draws_B: np.ndarray) -> Batch:
        """Return the rows of some examples, of whichever files."""
        parts_B = np.searchsorted(self._ends_M, examples_B, side="right")
        rows: Batch = {}
        for m in np.unique(parts_B):
            is_own_B = parts_B == m
            own_B = examples_B[is_own_B] - self._begin(m)
            for name, own in self.parts[m].batch(own_B, seed=seed, draws_B=draws_B[is_own_B]).items():
                rows.setdefault(name, np.empty((len(examples_B), *own.shape[1:]), own.dtype))[is_own_B] = own
        return rows

    def place(self, example: int) -> str:
        """Return where an example lies, and in which file."""
        m = int(np.searchsorted(self._ends_M, example, side="right"))
        return f"{self.parts[m].place(example - self._begin(m))} of {self.names[m]}"

    def describe(self) -> str:
        """Return what an evaluation reads of each file."""
        return "; ".join(f"{name}: {part.describe()}" for name, part in zip(self.names, self.parts, strict=True))

    def _begin(self, m: int) -> int:
        return int(self._ends_M[m]) - self.parts[m].count


def order_of(examples: Examples, *, seed: int) -> Order:
    """Return the order in which examples are trained on: a mixture's own, or else epoch by epoch."""
    if isinstance(examples, Mixture):
        return examples.order(seed=seed)
    return Epochs(examples.count, seed=seed)
