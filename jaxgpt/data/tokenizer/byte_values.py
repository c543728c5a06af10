"""One id per byte of the text's UTF-8: no table to learn, no text it cannot say."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from .checks import check_record, id_row, utf8_bytes


@dataclasses.dataclass(frozen=True)
class ByteTokenizer:
    """256 ids: id i is the byte i.

    A model may produce bytes that are not UTF-8. They decode as Unicode recommends: each longest part that could
    begin a character but does not go on as one becomes U+FFFD, the replacement character.

    Example:
        >>> tokenizer = ByteTokenizer()
        >>> tokenizer.encode("aü").tolist()
        [97, 195, 188]
        >>> tokenizer.decode([97, 195, 188]), tokenizer.decode([195, 97])
        ('aü', '\N{REPLACEMENT CHARACTER}a')
    """

    kind: ClassVar[str] = "bytes"
    vocab_size: ClassVar[int] = 256

    @property
    def special_ids(self) -> dict[str, int]:
        """None: every id is a byte."""
        return {}

    def encode(self, text: str) -> np.ndarray:
        """Return the UTF-8 bytes of `text`, int32 [N].

        Raises:
            RequestError: half a surrogate pair, which is no character.
        """
        return np.frombuffer(utf8_bytes(text), np.uint8).astype(np.int32)

    def byte_counts(self, text: str) -> np.ndarray:
        """Return 1 for each id of `text`, int32 [N].

        Raises:
            RequestError: as `encode` does.
        """
        return np.ones_like(self.encode(text))

    def id_bytes(self) -> np.ndarray:
        """Return 1 for each id, int32 [V]."""
        return np.ones(self.vocab_size, np.int32)

    def decode(self, ids: ArrayLike) -> str:
        """Return the text of `ids` [N], with U+FFFD where the bytes are not UTF-8.

        Raises:
            RequestError: ids that are not one row, or one that is no whole number in 0..255.
        """
        return id_row(ids, self.vocab_size).astype(np.uint8).tobytes().decode("utf-8", "replace")

    def to_json(self) -> dict[str, Any]:
        """Return `{"kind": "bytes"}`."""
        return {"kind": self.kind}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Rebuild a tokenizer from `to_json`'s record.

        Raises:
            RequestError: another kind, or unknown fields.
        """
        check_record(record, cls.kind)
        return cls()

    def fingerprint(self) -> str:
        """Return the sha256 (hex) of the kind, which says everything."""
        return hashlib.sha256(self.kind.encode()).hexdigest()
