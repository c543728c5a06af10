"""The masked-token objective of encoders: some tokens are hidden, and the model says what they were."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from jaxgpt.config import RequestError

from .examples import Batch, as_ids, check_row

# Devlin et al. 2018 (arXiv 1810.04805), section 3.1: of the chosen tokens 80 % become the mask token, 10 % a random
# one and 10 % stay, because there are no mask tokens in the text that the model is used on.
_MASKED, _RANDOM = 0.8, 0.1


class MaskedWindows:
    """Windows over a row of token ids in which chosen positions are hidden and predicted; only they count.

    Args:
        token_ids_N: the split's ids, int32 or narrower [N].
        context_length: window length T.
        mask_id: the mask token's id.
        ordinary_ids_U: the ids among which a random one is drawn, those of text, int32 [U].
        rate: share of the positions that are chosen, each by its own draw; at least one in each window.
        name: what the tokens are, in the words that begin a message.

    Raises:
        RequestError: the split is shorter than one window.

    Example:
        >>> ids = np.zeros(100, np.int32)
        >>> windows = MaskedWindows(ids, context_length=50, mask_id=9, ordinary_ids_U=np.arange(9), rate=0.5)
        >>> batch = windows.batch(np.array([3]), seed=0, draws_B=np.array([0]))
        >>> windows.count, bool((batch["weights_BT"][batch["token_ids_BT"] == 9] == 1).all())
        (51, True)
    """

    def __init__(
        self,
        token_ids_N: np.ndarray,
        *,
        context_length: int,
        mask_id: int,
        ordinary_ids_U: np.ndarray,
        rate: float,
        name: str = "the training split",
    ) -> None:
        check_row(token_ids_N)
        if len(token_ids_N) < context_length:
            raise RequestError(
                f"{name} has {len(token_ids_N)} tokens, but model.context_length {context_length} needs at least as "
                f"many; set model.context_length to at most {len(token_ids_N)}, or give more text"
            )
        self._rows_NT = sliding_window_view(token_ids_N, context_length)  # a view: costs no memory
        self._mask_id, self._ordinary_ids_U, self._rate = mask_id, ordinary_ids_U, rate

    @property
    def count(self) -> int:
        """Number of windows."""
        return len(self._rows_NT)

    @property
    def tiling(self) -> np.ndarray:
        """Windows 0, T, 2T, ...: each token is read once, but for fewer than T at the end."""
        T = self._rows_NT.shape[1]
        return np.arange((self.count + T - 1) // T) * T

    def batch(self, examples_B: np.ndarray, *, seed: int, draws_B: np.ndarray) -> Batch:
        """Return the windows that begin at `examples_B`, their hidden positions drawn row by row."""
        targets_BT = as_ids(self._rows_NT[examples_B])
        hidden = [self._hide(row_T, seed, draw) for row_T, draw in zip(targets_BT, draws_B, strict=True)]
        token_ids, weights = (np.stack(part) for part in zip(*hidden, strict=True))
        return {"token_ids_BT": token_ids, "target_ids_BT": targets_BT, "weights_BT": weights}

    def _hide(self, row_T: np.ndarray, seed: int, draw: int) -> tuple[np.ndarray, np.ndarray]:
        """Return a row with its chosen positions changed, and 1 at those positions."""
        rng = np.random.Generator(np.random.Philox(key=[seed, int(draw)]))
        chosen_T, fate_T = rng.random((2, len(row_T)))
        random_T = rng.choice(self._ordinary_ids_U, len(row_T))
        new_T = np.where(fate_T < _MASKED, self._mask_id, np.where(fate_T < _MASKED + _RANDOM, random_T, row_T))
        is_chosen_T = chosen_T < self._rate
        is_chosen_T[chosen_T.argmin()] = True  # at least one, so that every window teaches, and measures, something
        return np.where(is_chosen_T, new_T, row_T).astype(np.int32), is_chosen_T.astype(np.float32)

    def place(self, example: int) -> str:
        """Return where a window begins."""
        return f"the window at token {example}"

    def describe(self) -> str:
        """Return how many windows an evaluation reads, and the share that is hidden in them."""
        T = self._rows_NT.shape[1]
        tokens = self.count + T - 1
        return f"{tokens // T:,} whole windows of {T}, {self._rate:.0%} hidden, {tokens % T} tokens left over"
