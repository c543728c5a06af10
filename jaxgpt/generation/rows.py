"""What has been made of each row so far, and where it ends: the side of generation that the host keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from jaxgpt.config import WorkError

from .programs import NOTHING, Made
from .requests import GenerationRequest
from .sampling import NOT_FINITE
from .speculative import Drafts
from .text import place_of_stop

StopReason = Literal["length", "stop_id", "stop_string"]


class Piece(NamedTuple):
    """More of one row.

    Attributes:
        row: Which: continuation s of prompt p is row p * n + s.
        ids: Its newest tokens.
        logprobs: The model's log-probability of each, in nats; empty where they were not asked for.
        stop_reason: Why it ended with these tokens; None while it goes on.
    """

    row: int
    ids: list[int]
    logprobs: list[float]
    stop_reason: StopReason | None


class Rows:
    """The rows of a generation: their ids, prompt and new, the new ones' log-probabilities, and why each ended."""

    def __init__(self, prompts: Sequence[Sequence[int]], request: GenerationRequest) -> None:
        self._request = request
        self.ids = [list(prompt) for prompt in prompts for _ in range(request.n)]
        self.reasons: list[StopReason | None] = [None] * len(self.ids)
        self.logprobs: list[list[float]] = [[] for _ in self.ids]
        self.drafted_B, self.kept_B = np.zeros((2, len(self.ids)), int)
        self._prompt_lengths = [len(ids) for ids in self.ids]
        self._prompt_texts = [request.decode(ids) for ids in self.ids] if request.stop_strings else []

    @property
    def going(self) -> list[int]:
        """The rows that have not ended."""
        return [row for row, reason in enumerate(self.reasons) if reason is None]

    @property
    def held(self) -> int:
        """Tokens of the longest row that goes on, without its last one, which no cache has read yet."""
        return max(len(self.ids[row]) for row in self.going) - 1

    def made(self, row: int) -> int:
        """Return how many new tokens a row has."""
        return len(self.ids[row]) - self._prompt_lengths[row]

    def count_drafts(self, drafts: Drafts) -> None:
        """Add what a program drafted and kept of each row."""
        self.drafted_B += np.asarray(drafts.drafted_B)
        self.kept_B += np.asarray(drafts.kept_B)

    def take(self, made: Made) -> list[Piece]:
        """Add what a program made, up to each row's end; return it row by row.

        Raises:
            WorkError: the logits of a token were not finite.
        """
        ids_BN = np.asarray(made.ids_BN)
        nats_BN = None if made.nats_BN is None else np.asarray(made.nats_BN)
        pieces = []
        for row in self.going:
            is_token_N = ids_BN[row] != NOTHING
            nats = [] if nats_BN is None else nats_BN[row][is_token_N].tolist()
            piece = self._until_its_end(row, ids_BN[row][is_token_N].tolist(), nats)
            if piece.ids or piece.stop_reason is not None:
                pieces.append(piece)
        return pieces

    def _until_its_end(self, row: int, new: list[int], nats: list[float]) -> Piece:
        before = self.ids[row][self._prompt_lengths[row] :]
        if NOT_FINITE in new:
            raise WorkError(
                f"the logits of new token {len(before) + new.index(NOT_FINITE)} are not finite: the parameters are "
                "damaged or diverged; use an earlier checkpoint"
            )
        reason: StopReason | None = None
        if len(before) + len(new) >= self._request.max_new_tokens:
            new, reason = new[: self._request.max_new_tokens - len(before)], "length"
        stop = next((i for i, token in enumerate(new) if token in self._request.stop_ids), None)
        if stop is not None:
            new, reason = new[: stop + 1], "stop_id"
        stop = self._stop_string_within(row, new)
        if stop is not None:
            new, reason = new[: stop + 1], "stop_string"
        self.ids[row] += new
        self.logprobs[row] += nats[: len(new)]
        self.reasons[row] = reason
        return Piece(row, new, nats[: len(new)], reason)

    def _stop_string_within(self, row: int, new: list[int]) -> int | None:
        """Return the index of the new token that completes a stop string; None if none does."""
        decode, strings = self._request.decode, self._request.stop_strings

        def is_in(count: int) -> bool:
            text = decode(self.ids[row] + new[:count])
            return place_of_stop(text, self._prompt_texts[row], strings) is not None

        if not strings or not new or not is_in(len(new)):
            return None
        return next(i for i in range(len(new)) if is_in(i + 1))
