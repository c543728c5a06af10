"""GPT-2's byte-level BPE, made from its list of merges (`vocab.bpe`) alone and run by tiktoken."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from jaxgpt.config import RequestError

from .checks import check_record, id_row, utf8_bytes
from .vocabulary import vocabulary_fingerprint

if TYPE_CHECKING:
    import tiktoken

MERGES_SHA256 = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"
FINGERPRINT = "277826a460b0ddd3fa1602550f5b92489a308be13b571bcd4975002ae9a438a5"  # of the tokens those merges make
END_OF_TEXT = "<|endoftext|>"

# Where a text is cut before merging (section 2.2 of the GPT-2 report): contractions, then words, numbers and other
# signs, each with the space before it, then white space. `++` gives nothing back, so no text takes quadratic time.
_PIECES = r"'(?:s|t|re|ve|m|ll|d)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s+(?!\S)|\s"


def _byte_symbols() -> Iterator[tuple[int, str]]:
    """Yield (byte, the visible character that stands for it in vocab.bpe), in the order of the first 256 ids."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    yield from ((byte, chr(byte)) for byte in visible)
    others = sorted(set(range(256)) - set(visible))
    yield from ((byte, chr(256 + place)) for place, byte in enumerate(others))


BYTE_SYMBOLS = dict(_byte_symbols())
_BYTE_OF_SYMBOL = {ord(symbol): byte for byte, symbol in BYTE_SYMBOLS.items()}


def merge_pairs(merges: str) -> list[tuple[str, str]]:
    """Return the pairs of a merges file (`vocab.bpe`, `merges.txt`) in order; a `#version` line may stand first.

    Raises:
        RequestError: a line that is not two parts with one space between; the message gives its number.

    Example:
        >>> merge_pairs("#version: 0.2\\nh e\\nhe llo\\n")
        [('h', 'e'), ('he', 'llo')]
    """
    lines = merges.split("\n")
    first = 1 if lines[0].startswith("#version") else 0
    numbered = [(number, line.removesuffix("\r")) for number, line in enumerate(lines[first:], first + 1)]
    return [_pair(number, line) for number, line in numbered if line]


def _pair(number: int, line: str) -> tuple[str, str]:
    parts = line.split(" ")
    if len(parts) != 2 or not all(parts):
        raise RequestError(
            f"line {number} of the merges is {line[:40]!r}, expected two parts with a space between; "
            "the file is damaged, or no list of merges"
        )
    return parts[0], parts[1]


@functools.lru_cache(maxsize=1)
def _tokens(merges: str) -> tuple[str, ...]:
    """What each id stands for, in the visible characters: 256 bytes, a token per merge, the end of a text."""
    return (*BYTE_SYMBOLS.values(), *(left + right for left, right in merge_pairs(merges)), END_OF_TEXT)


@functools.lru_cache(maxsize=1)
def _encoding(merges: str) -> tiktoken.Encoding:
    """Build tiktoken's encoder; it reaches for nothing outside."""
    import tiktoken  # here: a run with another tokenizer need not load it

    *ordinary, end = _tokens(merges)
    ranks = {token.translate(_BYTE_OF_SYMBOL).encode("latin-1"): rank for rank, token in enumerate(ordinary)}
    return tiktoken.Encoding("gpt2", pat_str=_PIECES, mergeable_ranks=ranks, special_tokens={end: len(ranks)})


def symbol_counts(tokens: Sequence[str]) -> np.ndarray:
    """Return the number of visible characters of each token, int32 [V]: of one that comes from a text, its bytes.

    >>> symbol_counts(["Ġthe", "Ã"]).tolist()
    [4, 1]
    """
    return np.array([len(token) for token in tokens], np.int32)


def is_gpt2_merges(merges: str) -> bool:
    """Return whether `merges` is, byte for byte, the list that GPT-2 was published with.

    >>> is_gpt2_merges("#version: 0.2\\nh e\\n")
    False
    """
    return hashlib.sha256(merges.encode("utf-8", "surrogatepass")).hexdigest() == MERGES_SHA256


@dataclasses.dataclass(frozen=True)
class Gpt2Tokenizer:
    """GPT-2's 50,257 ids: 256 bytes, 50,000 merges, and `<|endoftext|>` = 50256 for both ends of a text.

    Ids that are not whole UTF-8 characters decode to U+FFFD, as with `ByteTokenizer`.

    Args:
        merges: the text of GPT-2's vocab.bpe, known by its sha256.

    Raises:
        RequestError: any other text: a damaged file would give other ids without a word.

    Example:
        >>> Gpt2Tokenizer("#version: 0.2\\nh e\\n")
        Traceback (most recent call last):
            ...
        jaxgpt.config.errors.RequestError: these are not GPT-2's merges (sha256 d0d4c49e8e86, expected \
1ce1664773c5): the file is damaged or belongs to another model; for another byte-level BPE give its tokenizer.json, \
or vocab.json with merges.txt
    """

    merges: str = dataclasses.field(repr=False)

    kind: ClassVar[str] = "gpt2"
    vocab_size: ClassVar[int] = 50_257

    def __post_init__(self) -> None:
        if not is_gpt2_merges(self.merges):
            found = hashlib.sha256(self.merges.encode("utf-8", "surrogatepass")).hexdigest()
            raise RequestError(
                f"these are not GPT-2's merges (sha256 {found[:12]}, expected {MERGES_SHA256[:12]}): the file is "
                "damaged or belongs to another model; for another byte-level BPE give its tokenizer.json, or "
                "vocab.json with merges.txt"
            )

    @property
    def special_ids(self) -> dict[str, int]:
        """`<|endoftext|>` stands between texts, so it both begins and ends one."""
        return {"bos": self.vocab_size - 1, "eos": self.vocab_size - 1}

    @property
    def tokens(self) -> tuple[str, ...]:
        """What each id stands for, as the published encoder.json writes it; `tokens[i]` is id i."""
        return _tokens(self.merges)

    def encode(self, text: str, *, parse_special: bool = False) -> np.ndarray:
        """Return the ids of `text`, int32 [N].

        Args:
            text: any text.
            parse_special: read `<|endoftext|>` in the text as the special token; by default it is text like any.

        Raises:
            RequestError: half a surrogate pair, which is no character, or a million blanks in a row.
        """
        utf8_bytes(text)  # tiktoken would replace what this refuses
        allowed = {END_OF_TEXT} if parse_special else set()
        try:
            ids_N = _encoding(self.merges).encode_to_numpy(text, allowed_special=allowed, disallowed_special=())
        except ValueError as error:  # the only pattern that gives back is that of white space
            raise RequestError(
                f"tiktoken cannot cut this text ({error}); shorten its runs of white space to less than a million "
                "characters"
            ) from None
        return ids_N.astype(np.int32)

    def byte_counts(self, text: str) -> np.ndarray:
        """Return how many bytes each id of `text` stands for, int32 [N].

        Raises:
            RequestError: as `encode` does.
        """
        return symbol_counts(self.tokens)[self.encode(text)]

    def id_bytes(self) -> np.ndarray:
        """Return how many bytes each id stands for, int32 [V]; `<|endoftext|>` stands for none."""
        bytes_V = symbol_counts(self.tokens)
        bytes_V[-1] = 0
        return bytes_V

    def decode(self, ids: ArrayLike) -> str:
        """Return the text of `ids` [N], with U+FFFD where their bytes are not UTF-8.

        Raises:
            RequestError: ids that are not one row, or one that is no whole number or outside the vocabulary.
        """
        row = id_row(ids, self.vocab_size).tolist()
        return _encoding(self.merges).decode_bytes(row).decode("utf-8", "replace")

    def to_json(self) -> dict[str, Any]:
        """Return `{"kind": "gpt2", "merges": the text of vocab.bpe}` (456 kB)."""
        return {"kind": self.kind, "merges": self.merges}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Rebuild a tokenizer from `to_json`'s record.

        Raises:
            RequestError: another kind, missing or unknown fields, or merges that are not GPT-2's.
        """
        check_record(record, cls.kind, merges=str)
        return cls(record["merges"])

    def fingerprint(self) -> str:
        """Return the sha256 (hex) of the tokens in id order; a tokenizer.json of the same tokens has the same."""
        return vocabulary_fingerprint(self.tokens, {"type": "ByteLevel"})
