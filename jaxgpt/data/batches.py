"""Batches of windows over a row of token ids: for training a pure function of (seed, step), for evaluation a tiling.

A batch is a plain dict of `token_ids_BT` (int32), `target_ids_BT` (int32; the token that follows each) and
`weights_BT` (float32; 0 where a position does not count).
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

import chex
import grain
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from jaxgpt.config import RequestError

Batch = dict[str, np.ndarray]

# Enough that a slow moment (a checkpoint, an evaluation) does not leave the device waiting; more only costs memory.
BATCHES_AHEAD = 4


def count_windows(tokens: int, context_length: int, name: str) -> int:
    """Return how many windows of `context_length` tokens, each with a next token, begin in `tokens` tokens.

    Args:
        tokens: length N of the split.
        context_length: length T of a window.
        name: what the tokens are, in the words that begin the message.

    Raises:
        RequestError: not a single window fits, which takes T + 1 tokens.

    Example:
        >>> count_windows(65, 64, "the training split")
        1
    """
    if tokens <= context_length:
        shorter = f"set model.context_length to at most {tokens - 1}, or " if tokens > 1 else ""
        raise RequestError(
            f"{name} has {tokens} tokens, but model.context_length {context_length} needs at least "
            f"{context_length + 1} (a window and the token after it); {shorter}give more text"
        )
    return tokens - context_length


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
    """Every window of a split once per epoch, in a new order each epoch; step s is the same batch in any run.

    Windows overlap: one begins at each token that has T more after it. An epoch's order is a permutation
    that is computed, not stored, so any step costs the same and a run resumes at any step without replaying.
    Batches run on across the end of an epoch, so all have the same shape and no window is dropped.

    Args:
        token_ids_N: the split's ids, int32 [N].
        context_length: window length T.
        batch_size: windows per batch B.
        seed: seed of the order, 0..2^32 - 1.

    Attributes:
        windows: number of windows, the length of an epoch.

    Raises:
        RequestError: the split is too short for one window.

    Example:
        >>> batches = TrainingBatches(np.arange(10, dtype=np.int32), context_length=4, batch_size=3, seed=0)
        >>> batches.windows
        6
        >>> sorted(np.concatenate([batches.windows_at(0), batches.windows_at(1)]).tolist())
        [0, 1, 2, 3, 4, 5]
        >>> with batches.stream(start_step=7) as stream:
        ...     bool((next(stream)["token_ids_BT"] == batches.batch_at(7)["token_ids_BT"]).all())
        True
    """

    def __init__(self, token_ids_N: np.ndarray, *, context_length: int, batch_size: int, seed: int) -> None:
        _check_row(token_ids_N)
        self.windows = count_windows(len(token_ids_N), context_length, "the training split")
        self._rows_NT = sliding_window_view(token_ids_N, context_length)  # a view: costs no memory
        # `.seed` hashes the seed before the shuffle adds the epoch to it; `.shuffle(seed=s)` would make the
        # second epoch of seed 1 the first epoch of seed 2.
        order = grain.MapDataset.range(self.windows).seed(seed).shuffle().repeat()
        # The order never ends, so no remainder is ever dropped; without the word grain rounds its endless length
        # up in floats, past what `len` can say for batches of one.
        self._starts = order.batch(batch_size, drop_remainder=True)
        self._batches = self._starts.map(self._gather)

    def _gather(self, starts_B: np.ndarray) -> Batch:
        token_ids_BT = self._rows_NT[starts_B]
        return {
            "token_ids_BT": token_ids_BT,
            "target_ids_BT": self._rows_NT[starts_B + 1],
            "weights_BT": np.ones(token_ids_BT.shape, np.float32),
        }

    def windows_at(self, step: int) -> np.ndarray:
        """Return where the windows of a step's batch begin in the split, int64 [B].

        Raises:
            RequestError: a negative step.
        """
        return self._starts[_check_step(step)]

    def batch_at(self, step: int) -> Batch:
        """Return the batch of a step (0-based); what was asked before makes no difference.

        Raises:
            RequestError: a negative step.
        """
        return self._batches[_check_step(step)]

    def stream(self, start_step: int) -> BatchStream:
        """Return an iterator over `batch_at(start_step)`, `batch_at(start_step + 1)`, ..., prepared ahead.

        Raises:
            RequestError: a negative step.
        """
        options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=BATCHES_AHEAD)
        iterator = iter(self._batches.to_iter_dataset(options))
        grain.experimental.set_next_index(iterator, _check_step(start_step))
        return BatchStream(iterator)


def count_evaluation_windows(tokens: int, context_length: int) -> tuple[int, int]:
    """Return how many windows tile `tokens` tokens, and how many tokens at the end no window predicts.

    The first token has nothing before it, so `tokens` - 1 can be predicted; windows x T of them are, and the
    rest, fewer than T, are left over.

    Raises:
        RequestError: not a single window fits.

    Example:
        >>> count_evaluation_windows(111_540, 64)
        (1742, 51)
    """
    count_windows(tokens, context_length, "the split to evaluate")
    return divmod(tokens - 1, context_length)


def evaluation_batches(token_ids_N: np.ndarray, *, context_length: int, batch_size: int) -> Iterator[Batch]:
    """Return batches of the windows that tile a split from its start, in order, each token predicted once.

    Window i reads ids [iT, (i+1)T) and predicts ids [iT+1, (i+1)T]. Only full windows are given (see
    `count_evaluation_windows`). The last batch is filled up with rows of weight 0, so that all share one
    shape and one compiled function serves them.

    Args:
        token_ids_N: the split's ids, int32 [N].
        context_length: window length T.
        batch_size: rows per batch B.

    Raises:
        RequestError: the split is too short for one window.

    Example:
        >>> ids = np.arange(8, dtype=np.int32)
        >>> [batch["weights_BT"].tolist() for batch in evaluation_batches(ids, context_length=2, batch_size=2)]
        [[[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 0.0]]]
    """
    _check_row(token_ids_N)
    windows, _ = count_evaluation_windows(len(token_ids_N), context_length)
    covered = windows * context_length
    rows = {
        "token_ids_BT": token_ids_N[:covered].reshape(windows, context_length),
        "target_ids_BT": token_ids_N[1 : covered + 1].reshape(windows, context_length),
        "weights_BT": np.ones((windows, context_length), np.float32),
    }
    return (
        {name: _filled(array[first : first + batch_size], batch_size) for name, array in rows.items()}
        for first in range(0, windows, batch_size)
    )


def _filled(rows: np.ndarray, batch_size: int) -> np.ndarray:
    """Return `rows` with rows of zeros after them, `batch_size` in all."""
    return np.pad(rows, ((0, batch_size - len(rows)), (0, 0)))


def _check_row(token_ids_N: np.ndarray) -> None:
    chex.assert_rank(token_ids_N, 1)
    chex.assert_type(token_ids_N, np.int32)


def _check_step(step: int) -> int:
    if step < 0:
        raise RequestError(f"a step counts from 0, got {step}; ask for step 0 or later")
    return step
