"""Text to token ids and back. A tokenizer is a value: what its ids mean can be written down and compared."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from jaxgpt.config import RequestError, nearest

from .token_ids import check_token_ids

# Python's strings are sequences of code points; this encoding is the same sequence, four bytes each.
CODE_POINTS = "utf-32-le"


class Tokenizer(Protocol):
    """What the rest of the project asks of a tokenizer."""

    @property
    def vocab_size(self) -> int:
        """Number of ids V; they are 0..V-1."""
        ...

    def encode(self, text: str) -> np.ndarray:
        """Return the ids of `text` as int32 [N]."""
        ...

    def decode(self, ids: ArrayLike) -> str:
        """Return the text of `ids` [N]."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return what `tokenizer_from_json` rebuilds this tokenizer from."""
        ...

    def fingerprint(self) -> str:
        """Return a sha256 (hex) of what the ids mean; equal exactly when every id means the same."""
        ...


def _name(character: str) -> str:
    """Return a character as messages show it: quoted, with its code point."""
    return f"{character!r} (U+{ord(character):04X})"


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
                    f"character tokenizer: {_name(character)} is listed for id {seen[character]} and again "
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
                f"character {_name(text[position])} at position {position} is not among the "
                f"{self.vocab_size} characters of this tokenizer; remove or replace it, or train on a text "
                "that contains it"
            )
        return ids_N

    def decode(self, ids: ArrayLike) -> str:
        """Return the text of `ids` [N].

        Raises:
            RequestError: ids that are not one row, or one that is no whole number or outside the vocabulary.
        """
        check_token_ids(ids, self.vocab_size, "decode")
        ids_N = np.asarray(ids, dtype=np.int64)
        if ids_N.ndim != 1:
            raise RequestError(f"decode: expected one row of ids, got shape {ids_N.shape}; decode each row by itself")
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
        if record.get("kind") != cls.kind:
            raise RequestError(
                f"tokenizer: expected kind '{cls.kind}', got {record.get('kind')!r}; use its own class"
            )
        if set(record) != {"kind", "characters"} or not isinstance(record["characters"], list):
            raise RequestError(
                "character tokenizer: expected the fields 'kind' and 'characters' (a list), "
                f"got {', '.join(sorted(map(repr, record)))}; save the tokenizer again"
            )
        return cls(tuple(record["characters"]))

    def fingerprint(self) -> str:
        """Return the sha256 (hex) of the kind and the characters in id order."""
        meaning = "\n".join([self.kind, "".join(self.characters)])
        return hashlib.sha256(meaning.encode("utf-8")).hexdigest()


KINDS: dict[str, type[CharacterTokenizer]] = {CharacterTokenizer.kind: CharacterTokenizer}


def _class_of(kind: Any) -> type[CharacterTokenizer]:
    if not isinstance(kind, str) or kind not in KINDS:
        close = nearest(kind, KINDS) if isinstance(kind, str) else ""
        raise RequestError(f"unknown tokenizer kind {kind!r}{close} (kinds: {', '.join(KINDS)})")
    return KINDS[kind]


def tokenizer_from_json(record: Mapping[str, Any]) -> Tokenizer:
    """Rebuild whichever tokenizer wrote `record`, by its field "kind".

    Raises:
        RequestError: not a mapping, an unknown kind (with the nearest), or a record that its class refuses.

    Example:
        >>> tokenizer_from_json({"kind": "characters", "characters": ["a", "b"]}).vocab_size
        2
    """
    if not isinstance(record, Mapping):
        raise RequestError(
            f"tokenizer: expected an object with the field 'kind', got {type(record).__name__}; "
            "save the tokenizer again"
        )
    return _class_of(record.get("kind")).from_json(record)


def make_tokenizer(kind: str, text: str) -> Tokenizer:
    """Return the tokenizer that `data.tokenizer` names, built from `text`.

    Raises:
        RequestError: an unknown kind (with the nearest), or an empty text.

    Example:
        >>> make_tokenizer("characters", "to be").vocab_size
        5
    """
    return _class_of(kind).train(text)
