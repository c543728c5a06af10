"""Overlapping evaluation windows: each token is predicted once, with at least T - stride tokens before it."""

from __future__ import annotations

import numpy as np

from jaxgpt.config import RequestError

from .examples import Batch, Windows


class StridedWindows:
    """Windows that begin every `stride` tokens; a window counts the tokens that the one before it did not reach.

    A stride of T tiles the text, which costs least; a smaller one gives each token more to look back on, which costs
    T / stride times as much and lowers the loss. (The first window counts all its tokens.)

    Args:
        token_ids_N: the ids, int32 [N].
        context_length: window length T.
        stride: tokens between the beginnings of two windows, 1..T.
        name: what the tokens are, in the words that begin a message.
        end_id: as in `Windows`, to pack documents.

    Raises:
        RequestError: the tokens are too few for one window, or the stride is not in 1..T.

    Example:
        >>> windows = StridedWindows(np.arange(9, dtype=np.int32), context_length=4, stride=2)
        >>> batch = windows.batch(windows.tiling, seed=0, draws_B=windows.tiling)
        >>> (batch["target_ids_BT"] * batch["weights_BT"]).astype(int).tolist()
        [[1, 2, 3, 4], [0, 0, 5, 6], [0, 0, 7, 8]]
    """

    def __init__(
        self,
        token_ids_N: np.ndarray,
        *,
        context_length: int,
        stride: int,
        name: str = "the text",
        end_id: int | None = None,
    ) -> None:
        if not 1 <= stride <= context_length:
            raise RequestError(
                f"stride: expected 1 to {context_length}, the context, got {stride}; a longer one would skip tokens"
            )
        self._windows = Windows(token_ids_N, context_length=context_length, name=name, end_id=end_id)
        self._context_length, self._stride = context_length, stride

    @property
    def count(self) -> int:
        """Number of windows."""
        return 1 + (self._windows.count - 1) // self._stride

    @property
    def tiling(self) -> np.ndarray:
        """All of them."""
        return np.arange(self.count)

    @property
    def covered(self) -> int:
        """Number of tokens that are predicted: ids 1..covered."""
        return self._context_length + (self.count - 1) * self._stride

    @property
    def left_over(self) -> int:
        """Number of tokens at the end that no whole window predicts, fewer than the stride."""
        return self._windows.count - 1 + self._context_length - self.covered

    def batch(self, examples_B: np.ndarray, *, seed: int, draws_B: np.ndarray) -> Batch:
        """Return windows by number; nothing is drawn."""
        batch = self._windows.batch(examples_B * self._stride, seed=seed, draws_B=draws_B)
        is_old_T = np.arange(self._context_length) < self._context_length - self._stride
        is_first_B = examples_B == 0
        batch["weights_BT"][~is_first_B[:, None] & is_old_T] = 0
        return batch

    def place(self, example: int) -> str:
        """Return where a window begins."""
        return self._windows.place(example * self._stride)

    def describe(self) -> str:
        """Return what is read and what is left out."""
        return (
            f"{self.count:,} windows of {self._context_length}, one every {self._stride}, {self.covered:,} tokens "
            f"predicted, {self.left_over} left over"
        )
