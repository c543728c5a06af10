"""Special tokens beside the text: added behind a tokenizer that has none, and read in a text where asked for."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from jaxgpt.config import RequestError

from .checks import check_record, id_row
from .protocol import Tokenizer

ROLES = ("bos", "eos", "pad", "mask")


@dataclasses.dataclass(frozen=True)
class ExtendedTokenizer:
    """A tokenizer with special tokens behind its own ids, one per role, shown as `<role>`.

    Args:
        base: the tokenizer of the text.
        roles: the roles of ids base.vocab_size, base.vocab_size + 1, ...

    Raises:
        RequestError: no role, one that is unknown or there twice, or one that the base fills already.

    Example:
        >>> from .characters import CharacterTokenizer
        >>> tokenizer = ExtendedTokenizer(CharacterTokenizer.train("ab"), ("mask",))
        >>> tokenizer.vocab_size, tokenizer.special_ids, tokenizer.decode([0, 2, 1])
        (3, {'mask': 2}, 'a<mask>b')
    """

    base: Tokenizer
    roles: tuple[str, ...]

    kind: ClassVar[str] = "extended"

    def __post_init__(self) -> None:
        wrong = [role for role in self.roles if role not in ROLES or role in self.base.special_ids]
        if wrong or not self.roles or len(set(self.roles)) != len(self.roles):
            raise RequestError(
                f"extended tokenizer: expected roles among {', '.join(ROLES)} that the tokenizer does not fill "
                f"itself, each once, got {', '.join(self.roles) or 'none'}; name only those that are missing"
            )

    @property
    def vocab_size(self) -> int:
        """Number of ids V, special tokens included."""
        return self.base.vocab_size + len(self.roles)

    @property
    def special_ids(self) -> dict[str, int]:
        """Ids by role, those of the base included."""
        return self.base.special_ids | {role: self.base.vocab_size + i for i, role in enumerate(self.roles)}

    def encode(self, text: str) -> np.ndarray:
        """Return the ids of `text` as the base does, int32 [N]."""
        return self.base.encode(text)

    def byte_counts(self, text: str) -> np.ndarray:
        """Return the bytes of the ids of `text` as the base does, int32 [N]."""
        return self.base.byte_counts(text)

    def id_bytes(self) -> np.ndarray | None:
        """Return the bytes of each id as the base does, and 0 for each role, int32 [V]."""
        bytes_V = self.base.id_bytes()
        return None if bytes_V is None else np.pad(bytes_V, (0, len(self.roles)))

    def decode(self, ids: ArrayLike) -> str:
        """Return the text of `ids` [N]; what stands between two special tokens is decoded in one piece.

        Raises:
            RequestError: ids that are not one row, or one that is no whole number or outside the vocabulary.
        """
        ids_N = id_row(ids, self.vocab_size)
        places = np.flatnonzero(ids_N >= self.base.vocab_size)
        parts = np.split(ids_N, np.stack([places, places + 1], axis=1).ravel())
        return "".join(map(self._decode_part, parts))

    def _decode_part(self, ids_N: np.ndarray) -> str:
        if len(ids_N) and ids_N[0] >= self.base.vocab_size:
            return f"<{self.roles[ids_N[0] - self.base.vocab_size]}>"
        return self.base.decode(ids_N)

    def to_json(self) -> dict[str, Any]:
        """Return `{"kind": "extended", "base": the base's record, "roles": [...]}`."""
        return {"kind": self.kind, "base": self.base.to_json(), "roles": list(self.roles)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Rebuild a tokenizer from `to_json`'s record.

        Raises:
            RequestError: another kind, missing or unknown fields, a base or roles that are refused.
        """
        from .kinds import tokenizer_from_json  # here: that table lists this class

        check_record(record, cls.kind, base=dict, roles=list)
        return cls(tokenizer_from_json(record["base"]), tuple(record["roles"]))

    @functools.cached_property
    def _fingerprint(self) -> str:
        meaning = "\n".join([self.kind, self.base.fingerprint(), *self.roles])
        return hashlib.sha256(meaning.encode("utf-8")).hexdigest()

    def fingerprint(self) -> str:
        """Return the sha256 (hex) of the base's fingerprint and the roles."""
        return self._fingerprint


def with_roles(tokenizer: Tokenizer, roles: Sequence[str]) -> Tokenizer:
    """Return `tokenizer` with a special token for each of `roles`: itself, where it has them all.

    Example:
        >>> from .byte_values import ByteTokenizer
        >>> with_roles(ByteTokenizer(), ["bos", "eos"]).special_ids
        {'bos': 256, 'eos': 257}
    """
    missing = tuple(role for role in roles if role not in tokenizer.special_ids)
    return ExtendedTokenizer(tokenizer, missing) if missing else tokenizer


def ordinary_ids(tokenizer: Tokenizer) -> np.ndarray:
    """Return the ids that no role is known of, int32 [N].

    Example:
        >>> from .characters import CharacterTokenizer
        >>> ordinary_ids(with_roles(CharacterTokenizer.train("ab"), ["mask"])).tolist()
        [0, 1]
    """
    return np.setdiff1d(np.arange(tokenizer.vocab_size), list(tokenizer.special_ids.values())).astype(np.int32)


def special_id(tokenizer: Tokenizer, role: str) -> int:
    """Return the id of the special token with a role.

    Raises:
        RequestError: the tokenizer has none.
    """
    if role not in tokenizer.special_ids:
        raise RequestError(
            f"this tokenizer has no {role} token (it has {', '.join(tokenizer.special_ids) or 'none'}), which this "
            "family of models needs; use the tokenizer that the model was trained with"
        )
    return tokenizer.special_ids[role]


def encode_with_special(tokenizer: Tokenizer, text: str, role: str) -> list[int]:
    """Return the ids of a text in which the name of a special token, as `decode` shows it, stands for that token.

    Raises:
        RequestError: the tokenizer has no such token.

    Example:
        >>> from .characters import CharacterTokenizer
        >>> tokenizer = with_roles(CharacterTokenizer.train("ab"), ["mask"])
        >>> encode_with_special(tokenizer, "a<mask><mask>", "mask")
        [0, 2, 2]
    """
    special = special_id(tokenizer, role)
    first, *others = (
        tokenizer.encode(part).tolist() if part else [] for part in text.split(tokenizer.decode([special]))
    )
    return first + [token for part in others for token in (special, *part)]
