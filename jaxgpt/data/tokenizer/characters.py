"""One id per character of a text, or per entry of a table that came with a model."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from jaxgpt.config import RequestError

from .checks import character_name, check_record, id_row, utf8_lengths

# Python's strings are sequences of code points; this encoding is the same sequence, four bytes each.
CODE_POINTS = "utf-32-le"


def _code_points(text: str) -> np.ndarray:
    """Return the code points of `text`, uint32 [N]; half a surrogate pair passes, for the table to refuse."""
    return np.frombuffer(text.encode(CODE_POINTS, "surrogatepass"), dtype="<u4")


@dataclasses.dataclass(frozen=True)
class CharacterTokenizer:
    """One id per character (Unicode code point); `characters[i]` is what id i means.

    Example:
        >>> tokenizer = CharacterTokenizer.train("hello")
        >>> tokenizer.characters
        ('e', 'h', 'l', 'o')
        >>> tokenizer.encode("hole").tolist()
        [1, 3, 2, 0]
        >>> tokenizer.decode([1, 3, 2, 0])
        'hole'

    Raises:
        RequestError: no characters, one that is there twice, or an entry that is not exactly one character.
    """

    characters: tuple[str, ...]

    kind: ClassVar[str] = "characters"

    def __post_init__(self) -> None:
        if not self.characters:
            raise RequestError("a character tokenizer needs at least one character, got none; give it text")
        seen: dict[str, int] = {}
        for index, character in enumerate(self.characters):
            if not isinstance(character, str) or len(character) != 1 or "\ud800" <= character <= "\udfff":
                raise RequestError(
                    f"character tokenizer: entry {index} is {character!r}, expected exactly one character; "
                    "list one character per id"
                )
            if character in seen:
                raise RequestError(
                    f"character tokenizer: {character_name(character)} is listed for id {seen[character]} and again "
                    f"for id {index}; list each character once"
                )
            seen[character] = index

    @classmethod
    def train(cls, text: str) -> Self:
        """Return the tokenizer of the distinct characters of `text`, sorted by code point.

        Raises:
            RequestError: `text` is empty.
        """
        if not text:
            raise RequestError("cannot build a character tokenizer from an empty text; give at least one character")
        return cls(tuple(sorted(set(text))))

    @property
    def vocab_size(self) -> int:
        """Number of characters V."""
        return len(self.characters)

    @property
    def special_ids(self) -> dict[str, int]:
        """None: every id is a character."""
        return {}

    @functools.cached_property
    def _code_of_id(self) -> np.ndarray:
        return _code_points("".join(self.characters))

    @functools.cached_property
    def _id_of_code(self) -> np.ndarray:
        """Id by code point, -1 where there is none; the last entry stands for every higher code point."""
        table = np.full(int(self._code_of_id.max()) + 2, -1, dtype=np.int32)
        table[self._code_of_id] = np.arange(self.vocab_size)
        return table

    def encode(self, text: str) -> np.ndarray:
        """Return the ids of `text`, int32 [N], one per character.

        Raises:
            RequestError: a character without an id; the message names the first one and its 0-based position.
        """
        table = self._id_of_code
        ids_N = table[np.minimum(_code_points(text), len(table) - 1)]
        unknown = ids_N < 0
        if unknown.any():
            position = int(unknown.argmax())
            raise RequestError(
                f"character {character_name(text[position])} at position {position} is not among the "
                f"{self.vocab_size} characters of this tokenizer; remove or replace it, or train on a text "
                "that contains it"
            )
        return ids_N

    def byte_counts(self, text: str) -> np.ndarray:
        """Return how many UTF-8 bytes each character of `text` has, int32 [N].

        Raises:
            RequestError: as `encode` does.

        Example:
            >>> CharacterTokenizer(("a", "ü")).byte_counts("üa").tolist()
            [2, 1]
        """
        self.encode(text)
        return utf8_lengths(text)

    def id_bytes(self) -> np.ndarray:
        """Return how many UTF-8 bytes each id's character has, int32 [V]."""
        return utf8_lengths("".join(self.characters))

    def decode(self, ids: ArrayLike) -> str:
        """Return the text of `ids` [N].

        Raises:
            RequestError: ids that are not one row, or one that is no whole number or outside the vocabulary.
        """
        ids_N = id_row(ids, self.vocab_size)
        return self._code_of_id[ids_N].tobytes().decode(CODE_POINTS)

    def to_json(self) -> dict[str, Any]:
        """Return `{"kind": "characters", "characters": [one per id]}`."""
        return {"kind": self.kind, "characters": list(self.characters)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Rebuild a tokenizer from `to_json`'s record.

        Raises:
            RequestError: another kind, missing or unknown fields, or entries that the constructor refuses.
        """
        check_record(record, cls.kind, characters=list)
        return cls(tuple(record["characters"]))

    def fingerprint(self) -> str:
        """Return the sha256 (hex) of the kind and the characters in id order."""
        meaning = "\n".join([self.kind, "".join(self.characters)])
        return hashlib.sha256(meaning.encode("utf-8")).hexdigest()
