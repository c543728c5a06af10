"""What one training example is: a numbered piece of a split, made into rows of a batch when its number comes up."""

from __future__ import annotations

from typing import Protocol

import chex
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from jaxgpt.config import RequestError

Batch = dict[str, np.ndarray]


class Examples(Protocol):
    """A split as examples 0..count-1; each objective (next token, masked token, pairs) is one class.

    A batch is a plain dict of `token_ids_BT` (int32), `target_ids_BT` (int32; what each position should predict),
    `weights_BT` (float32; 0 where a position does not count), for packed documents `segment_ids_BT`, and for pairs
    `source_ids_BS` and `source_mask_BS`.
    """

    @property
    def count(self) -> int:
        """Number of examples, the length of an epoch."""
        ...

    @property
    def tiling(self) -> np.ndarray:
        """The examples that an evaluation reads, which cover the split without overlap, int64 [N]."""
        ...

    def batch(self, examples_B: np.ndarray, *, seed: int, draws_B: np.ndarray) -> Batch:
        """Return the rows of some examples; what is drawn for row b depends on (seed, draws_B[b]) and the example."""
        ...

    def place(self, example: int) -> str:
        """Return where an example lies, in words."""
        ...

    def describe(self) -> str:
        """Return what an evaluation reads of the split, and what it leaves out, in words."""
        ...


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


def count_evaluation_windows(
    tokens: int, context_length: int, name: str = "the split to evaluate"
) -> tuple[int, int]:
    """Return how many windows tile `tokens` tokens, and how many tokens at the end no window predicts.

    The first token has nothing before it, so `tokens` - 1 can be predicted; windows x T of them are, and the
    rest, fewer than T, are left over.

    Raises:
        RequestError: not a single window fits.

    Example:
        >>> count_evaluation_windows(111_540, 64)
        (1742, 51)
    """
    count_windows(tokens, context_length, name)
    return divmod(tokens - 1, context_length)


_STORED = ("int32", "uint32", "uint16", "uint8")


def check_row(ids_N: np.ndarray) -> None:
    """Assert that ids are one row of whole numbers, of a type in which ids are held or stored."""
    chex.assert_rank(ids_N, 1)
    if ids_N.dtype.name not in _STORED:
        chex.assert_type(ids_N, np.int32)


def as_ids(ids: np.ndarray) -> np.ndarray:
    """Return ids as the model reads them, int32, of the same shape."""
    return ids.astype(np.int32, copy=False)


def _packed(batch: Batch, end_id: int) -> Batch:
    """Return windows whose documents are kept apart; an end token belongs to the document before it."""
    is_end_BT = batch["token_ids_BT"] == end_id
    segment_ids_BT = np.cumsum(is_end_BT, axis=1, dtype=np.int32) - is_end_BT
    return batch | {
        "weights_BT": batch["weights_BT"] * ~is_end_BT,
        "segment_ids_BT": segment_ids_BT,
    }


class Windows:
    """Windows over a row of token ids, each position predicting the token after it; one begins at each token.

    Args:
        token_ids_N: the split's ids, int32 or narrower [N]; mapped ids are only read where a window is asked for.
        context_length: window length T.
        name: what the tokens are, in the words that begin a message.
        end_id: the id after each document, to pack documents: a batch then also has `segment_ids_BT`, by which each
            token sees its own document only, and an end token, which another document follows, predicts nothing that
            counts. None reads the ids as one text.

    Raises:
        RequestError: the split is too short for one window.

    Example:
        >>> windows = Windows(np.arange(10, dtype=np.int32), context_length=4)
        >>> windows.count, windows.tiling.tolist()
        (6, [0, 4])
        >>> windows.batch(np.array([1]), seed=0, draws_B=np.array([0]))["target_ids_BT"].tolist()
        [[2, 3, 4, 5]]
    """

    def __init__(
        self,
        token_ids_N: np.ndarray,
        *,
        context_length: int,
        name: str = "the training split",
        end_id: int | None = None,
    ) -> None:
        check_row(token_ids_N)
        self.count = count_windows(len(token_ids_N), context_length, name)
        self._context_length, self._end_id = context_length, end_id
        self._rows_NT = sliding_window_view(token_ids_N, context_length)  # a view: costs no memory

    @property
    def tiling(self) -> np.ndarray:
        """Windows 0, T, 2T, ...: each token is predicted once, but for fewer than T at the end."""
        whole, _ = self._whole_and_left_over()
        return np.arange(whole) * self._context_length

    def batch(self, examples_B: np.ndarray, *, seed: int, draws_B: np.ndarray) -> Batch:
        """Return the windows that begin at `examples_B`; nothing is drawn."""
        del seed, draws_B
        token_ids_BT = as_ids(self._rows_NT[examples_B])
        batch = {
            "token_ids_BT": token_ids_BT,
            "target_ids_BT": as_ids(self._rows_NT[examples_B + 1]),
            "weights_BT": np.ones(token_ids_BT.shape, np.float32),
        }
        return batch if self._end_id is None else _packed(batch, self._end_id)

    def place(self, example: int) -> str:
        """Return where a window begins."""
        return f"the window at token {example}"

    def describe(self) -> str:
        """Return how many windows an evaluation reads."""
        whole, left_over = self._whole_and_left_over()
        return f"{whole:,} whole windows of {self._context_length}, {left_over} tokens left over"

    def _whole_and_left_over(self) -> tuple[int, int]:
        return count_evaluation_windows(self.count + self._context_length, self._context_length)
