"""Batches of a split's examples: for training a pure function of (seed, step), for evaluation each example once."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

import grain
import numpy as np

from jaxgpt.config import RequestError

from .examples import Batch, Examples
from .mixture import order_of

# Enough that a slow moment (a checkpoint, an evaluation) does not leave the device waiting; more only costs memory.
BATCHES_AHEAD = 4
_ENDLESS = 2**52  # steps: more than any run has, and small enough that no product of it overflows


class BatchStream:
    """An endless iterator over batches that a background thread prepares ahead; close it, or use `with`."""

    def __init__(self, batches: grain.DatasetIterator) -> None:
        self._batches = batches

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        return next(self._batches)

    def close(self) -> None:
        """Stop the background thread; the stream gives no more batches."""
        self._batches.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class TrainingBatches:
    """Every example of a split once per epoch, in a new order each epoch; step s is the same batch in any run.

    Of a mixture, every example of a file once before any of that file comes again. The order is computed, not stored,
    so any step costs the same and a run resumes at any step without replaying. Batches run on across the end of an
    epoch, so all have the same shape and no example is dropped.

    Args:
        examples: the split.
        batch_size: examples per batch B.
        seed: seed of the order, and of what an example draws, 0..2^32 - 1.

    Example:
        >>> from jaxgpt.data.examples import Windows
        >>> windows = Windows(np.arange(10, dtype=np.int32), context_length=4)
        >>> batches = TrainingBatches(windows, batch_size=3, seed=0)
        >>> sorted(np.concatenate([batches.examples_at(0), batches.examples_at(1)]).tolist())
        [0, 1, 2, 3, 4, 5]
        >>> with batches.stream(start_step=7) as stream:
        ...     bool((next(stream)["token_ids_BT"] == batches.batch_at(7)["token_ids_BT"]).all())
        True
    """

    def __init__(self, examples: Examples, *, batch_size: int, seed: int) -> None:
        self._examples, self._batch_size, self._seed = examples, batch_size, seed
        self._order = order_of(examples, seed=seed)
        self._batches = grain.MapDataset.range(_ENDLESS).map(self._gather)

    def _places_at(self, step: int) -> np.ndarray:
        return np.arange(self._batch_size, dtype=np.int64) + step * self._batch_size

    def _gather(self, step: int) -> Batch:
        places_B = self._places_at(step)
        return self._examples.batch(self._order.examples_at(places_B), seed=self._seed, draws_B=places_B)

    def examples_at(self, step: int) -> np.ndarray:
        """Return the numbers of a step's examples, int64 [B].

        Raises:
            RequestError: a negative step.
        """
        return self._order.examples_at(self._places_at(_check_step(step)))

    def places_at(self, step: int) -> list[str]:
        """Return where a step's examples lie, in words.

        Raises:
            RequestError: a negative step.
        """
        return [self._examples.place(int(example)) for example in self.examples_at(step)]

    def batch_at(self, step: int) -> Batch:
        """Return the batch of a step (0-based); what was asked before makes no difference.

        Raises:
            RequestError: a negative step.
        """
        return self._gather(_check_step(step))

    def stream(self, start_step: int) -> BatchStream:
        """Return an iterator over `batch_at(start_step)`, `batch_at(start_step + 1)`, ..., prepared ahead.

        Raises:
            RequestError: a negative step.
        """
        options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=BATCHES_AHEAD)
        iterator = iter(self._batches.to_iter_dataset(options))
        grain.experimental.set_next_index(iterator, _check_step(start_step))
        return BatchStream(iterator)


def evaluation_batches(examples: Examples, *, batch_size: int) -> Iterator[Batch]:
    """Yield batches of the examples that cover a split, in order (its `tiling`).

    The last batch is filled up with rows of weight 0, so that all share one shape and one compiled function serves
    them. What an example draws depends on the example alone, so the same positions are hidden each time, however the
    examples are batched.

    Args:
        examples: the split.
        batch_size: rows per batch B.

    Example:
        >>> from jaxgpt.data.examples import Windows
        >>> windows = Windows(np.arange(8, dtype=np.int32), context_length=2)
        >>> [batch["weights_BT"].tolist() for batch in evaluation_batches(windows, batch_size=2)]
        [[[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 0.0]]]
    """
    tiling_N = examples.tiling
    for first in range(0, len(tiling_N), batch_size):
        examples_B = tiling_N[first : first + batch_size]
        batch = examples.batch(examples_B, seed=_EVALUATION_SEED, draws_B=examples_B)
        yield {name: _filled(rows, batch_size) for name, rows in batch.items()}


_EVALUATION_SEED = 2**32  # above every seed of a run, so that an evaluation hides other positions than training did


def _filled(rows: np.ndarray, batch_size: int) -> np.ndarray:
    """Return `rows` with rows of zeros after them, `batch_size` in all."""
    return np.pad(rows, ((0, batch_size - len(rows)), (0, 0)))


def _check_step(step: int) -> int:
    if step < 0:
        raise RequestError(f"a step counts from 0, got {step}; ask for step 0 or later")
    return step
