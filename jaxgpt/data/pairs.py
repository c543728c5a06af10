"""Source-target pairs for an encoder_decoder: one a line, a TAB between the two."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jaxgpt.config import RequestError

from .corpus import Corpus
from .examples import Batch
from .tokenizer import Tokenizer


class Pair(NamedTuple):
    """A source and the target to write for it, as texts."""

    source: str
    target: str


def parse_pairs(text: str, name: str) -> list[Pair]:
    """Return the pairs of a text; a line break at its end is no empty line.

    Args:
        text: lines of source TAB target.
        name: what the text is, in the words that begin a message.

    Raises:
        RequestError: a line without exactly one TAB, or with nothing on one side of it; the line is named.

    Example:
        >>> parse_pairs("3 May\\t05-03\\n", "dates.tsv")
        [Pair(source='3 May', target='05-03')]
    """
    lines = text.split("\n")
    return [_parse_line(line, number, name) for number, line in enumerate(lines[:-1] if not lines[-1] else lines, 1)]


def _parse_line(line: str, number: int, name: str) -> Pair:
    if line.endswith("\r"):
        raise RequestError(
            f"{name}, line {number}: it ends in a carriage return, which would be learned as part of the target; "
            "convert the file to plain line breaks, for example with `tr -d '\\r'`"
        )
    parts = line.split("\t")
    if len(parts) != 2 or not all(parts):
        what = "nothing on one side of its TAB" if len(parts) == 2 else f"{len(parts) - 1} TABs"
        raise RequestError(
            f"{name}, line {number}: expected source TAB target, got {what}: {line[:60]!r}; "
            "an encoder_decoder trains on a file of such lines"
        )
    return Pair(*parts)


class EncodedPair(NamedTuple):
    """A source and a target as ids, int32 [N] each."""

    source: np.ndarray
    target: np.ndarray


def encode_pairs(pairs: Sequence[Pair], tokenizer: Tokenizer, *, context_length: int, name: str) -> list[EncodedPair]:
    """Return the ids of sources and targets.

    Raises:
        RequestError: a source longer than the context, or a target that with its two special tokens is; a character
            that the tokenizer does not know. The line is named.
    """
    rooms = {"source": context_length, "target": context_length - 2}  # a start and an end token stand around a target

    def encode(number: int, side: str, text: str) -> np.ndarray:
        try:
            ids_N = tokenizer.encode(text)
        except RequestError as error:
            raise RequestError(f"{name}, line {number}, {side}: {error}") from None
        if len(ids_N) > rooms[side]:
            raise RequestError(
                f"{name}, line {number}: the {side} has {len(ids_N)} tokens"
                f"{' between its start and its end token' if side == 'target' else ''}, above model.context_length "
                f"{context_length}; set it to at least {len(ids_N) + context_length - rooms[side]}, or take the line "
                "out"
            )
        return ids_N

    return [
        EncodedPair(encode(number, "source", pair.source), encode(number, "target", pair.target))
        for number, pair in enumerate(pairs, 1)
    ]


class Pairs:
    """Encoded pairs: the decoder reads the start token and the target, and predicts the target and the end token.

    All rows share one length of source and one of target, so that one compiled program serves them.

    Args:
        encoded: as from `encode_pairs`.
        bos_id, eos_id: the start and the end token.
        source_length, target_length: S and T, at least the longest source, and the longest target + 1.

    Example:
        >>> encoded = [EncodedPair(np.array([5, 6]), np.array([7]))]
        >>> pairs = Pairs(encoded, bos_id=1, eos_id=2, source_length=3, target_length=2)
        >>> batch = pairs.batch(np.array([0]), seed=0, draws_B=np.array([0]))
        >>> batch["token_ids_BT"].tolist(), batch["target_ids_BT"].tolist(), batch["source_ids_BS"].tolist()
        ([[1, 7]], [[7, 2]], [[5, 6, 0]])
    """

    def __init__(
        self, encoded: Sequence[EncodedPair], *, bos_id: int, eos_id: int, source_length: int, target_length: int
    ) -> None:
        sources, targets = zip(*encoded, strict=True)
        bos, eos = [bos_id], [eos_id]
        self._source_ids, self._source_mask = _padded(sources, source_length)
        self._token_ids, _ = _padded([np.append(bos, target) for target in targets], target_length)
        self._target_ids, counted = _padded([np.append(target, eos) for target in targets], target_length)
        self._weights = counted.astype(np.float32)

    @property
    def count(self) -> int:
        """Number of pairs."""
        return len(self._source_ids)

    @property
    def tiling(self) -> np.ndarray:
        """Every pair."""
        return np.arange(self.count)

    def batch(self, examples_B: np.ndarray, *, seed: int, draws_B: np.ndarray) -> Batch:
        """Return the rows of some pairs; nothing is drawn."""
        del seed, draws_B
        return {
            "token_ids_BT": self._token_ids[examples_B],
            "target_ids_BT": self._target_ids[examples_B],
            "weights_BT": self._weights[examples_B],
            "source_ids_BS": self._source_ids[examples_B],
            "source_mask_BS": self._source_mask[examples_B],
        }

    def place(self, example: int) -> str:
        """Return which pair it is."""
        return f"pair {example}"

    def describe(self) -> str:
        """Return how many pairs an evaluation reads."""
        return f"{self.count:,} pairs"


def _padded(rows: Sequence[np.ndarray], length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows with zeros behind them, int32 [N,length], and true where a row has a token."""
    ids = np.zeros((len(rows), length), np.int32)
    lengths_N = np.array([len(row) for row in rows])
    is_real = np.arange(length) < lengths_N[:, None]
    ids[is_real] = np.concatenate(rows)
    return ids, is_real


_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_FIRST, _LAST = datetime.date(1950, 1, 1), datetime.date(2049, 12, 31)
_STRIDE = 22_511  # coprime to the number of days: visits each once, and every stretch of the order has all years


def date_pairs() -> Corpus:
    """Return the built-in pairs: every date of a century as people write it, and as ISO 8601, in mixed order.

    Example:
        >>> [line.split("\\t") for line in date_pairs().text.splitlines()[:2]]
        [['1 January 1950', '1950-01-01'], ['August 20, 2011', '2011-08-20']]
    """
    text = "".join(f"{source}\t{target}\n" for source, target in _dates())
    return Corpus.of(text, f"built-in pairs (the dates of {_FIRST.year} to {_LAST.year})")


def _dates() -> Iterator[Pair]:
    days = (_LAST - _FIRST).days + 1
    for i in range(days):
        date = _FIRST + datetime.timedelta(days=i * _STRIDE % days)
        month = _MONTHS[date.month - 1]
        written = (
            f"{date.day} {month} {date.year}",
            f"{month} {date.day}, {date.year}",
            f"{month[:3]} {date.day} {date.year}",
        )
        yield Pair(written[i % len(written)], date.isoformat())
