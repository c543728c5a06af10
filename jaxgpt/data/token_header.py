"""The header of a token file: what the ids mean, how many there are, and their hash.

Bytes, little-endian: 8 of magic, uint32 version, uint32 length L of the JSON, 32 of the JSON's sha256, L of JSON,
padded with spaces so that the ids behind it begin at a multiple of 64.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import struct
from typing import Any, BinaryIO, Self

import numpy as np

from jaxgpt.config import RequestError

MAGIC = b"jaxgpt\x00t"
VERSION = 1
ALIGNMENT = 64
_START = struct.Struct("<8sII32s")
_MOST_JSON = 1 << 28  # the largest tokenizers take some 40 MB; a damaged length must not ask for all of the memory
_MOST = 2**63 - 1
_DTYPES = ("uint16", "uint32")
_AGAIN = "get an undamaged copy, or write it again with `jaxgpt data prepare`"


def token_dtype(vocab_size: int) -> np.dtype:
    """Return the smaller of uint16 and uint32 (little-endian) that holds every id of a vocabulary.

    Raises:
        RequestError: uint32 holds not all of them either.

    Example:
        >>> token_dtype(65_536).name, token_dtype(65_537).name
        ('uint16', 'uint32')
    """
    if not 1 <= vocab_size <= 2**32:
        raise RequestError(f"a token file holds ids of 1 to {2**32} kinds, got a vocabulary of {vocab_size}")
    return np.dtype("<u2" if vocab_size <= 2**16 else "<u4")


@dataclasses.dataclass(frozen=True)
class TokenHeader:
    """What a token file says about its ids.

    Attributes:
        vocab_size: number of ids V of the tokenizer.
        dtype: "uint16" or "uint32", the smaller one that holds V - 1.
        count: number of ids in the file.
        sha256: hash (hex) of the ids' bytes.
        end_id: the id after each document; None where nothing stands between documents.
        documents: number of documents; None where nobody counted.
        source: what was read, in words.
        tokenizer: the tokenizer's `to_json()`, so that the file alone is enough to train from.
        tokenizer_hash: the tokenizer's `fingerprint()`.

    Raises:
        RequestError: a value that no token file has.
    """

    vocab_size: int
    dtype: str
    count: int
    sha256: str
    end_id: int | None
    documents: int | None
    source: str
    tokenizer: dict[str, Any]
    tokenizer_hash: str

    def __post_init__(self) -> None:
        _expect(_whole(self.vocab_size, 1, 2**32), "vocab_size", self.vocab_size, f"a whole number, 1 to {2**32}")
        fitting = token_dtype(self.vocab_size).name
        _expect(self.dtype == fitting, "dtype", self.dtype, f"'{fitting}', the smallest for {self.vocab_size} ids")
        _expect(_whole(self.count, 1, _MOST), "count", self.count, "a whole number, at least 1")
        _expect(_is_sha256(self.sha256), "sha256", self.sha256, "64 hexadecimal digits")
        last = self.vocab_size - 1
        _expect(self.end_id is None or _whole(self.end_id, 0, last), "end_id", self.end_id, f"null, or 0 to {last}")
        counted = self.documents is None or _whole(self.documents, 1, _MOST)
        _expect(counted, "documents", self.documents, "null, or a whole number, at least 1")
        _expect(isinstance(self.source, str), "source", self.source, "text")
        _expect(isinstance(self.tokenizer, dict), "tokenizer", self.tokenizer, "a tokenizer's record")
        _expect(_is_sha256(self.tokenizer_hash), "tokenizer_hash", self.tokenizer_hash, "64 hexadecimal digits")

    def to_bytes(self, room: int = 0) -> bytes:
        """Return the header as it stands in a file.

        Args:
            room: bytes that were left for it before all was counted; it is padded to them.
        """
        content = self._json()
        size = max(room, -(-(_START.size + len(content)) // ALIGNMENT) * ALIGNMENT)
        content = content.ljust(size - _START.size)
        return _START.pack(MAGIC, VERSION, len(content), hashlib.sha256(content).digest()) + content

    def _json(self) -> bytes:
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False, separators=(",", ":")).encode("utf-8")

    @classmethod
    def read(cls, file: BinaryIO) -> Self:
        """Read the header at the beginning of `file`, which is left at the first id.

        Raises:
            RequestError: not a token file, another version, or damaged.
        """
        start = file.read(_START.size)
        if not start.startswith(MAGIC):
            raise RequestError(
                f"this is no token file, it begins with {start[:8]!r}; `jaxgpt data prepare` writes one from text"
            )
        if len(start) < _START.size:
            raise RequestError(f"it ends within its header, after {len(start)} bytes; {_AGAIN}")
        _, version, length, digest = _START.unpack(start)
        if version != VERSION:
            raise RequestError(
                f"it is a token file of version {version}, and this program reads version {VERSION}; update the "
                "program if a newer one wrote the file, or write it again with `jaxgpt data prepare`"
            )
        if length > _MOST_JSON or (_START.size + length) % ALIGNMENT:
            raise RequestError(f"its header is damaged: it cannot be {length} bytes long; {_AGAIN}")
        content = file.read(length)
        if len(content) < length:
            raise RequestError(f"it ends within its header, after {_START.size + len(content)} bytes; {_AGAIN}")
        if hashlib.sha256(content).digest() != digest:
            raise RequestError(f"its header is damaged: the hash is another; {_AGAIN}")
        return cls._parse(content)

    @classmethod
    def _parse(cls, content: bytes) -> Self:
        try:
            record = json.loads(content.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise RequestError(f"its header is not JSON ({error}); {_AGAIN}") from None
        expected = {field.name for field in dataclasses.fields(cls)}
        found = set(record) if isinstance(record, dict) else set()
        if found != expected:
            differences = [*(f"no {name}" for name in sorted(expected - found)), *sorted(map(repr, found - expected))]
            raise RequestError(f"its header has other fields than this version's: {', '.join(differences)}; {_AGAIN}")
        return cls(**record)


def _whole(value: object, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _is_sha256(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _expect(holds: bool, name: str, value: object, expected: str) -> None:
    if not holds:
        raise RequestError(f"its header says {name} = {value!r:.60}, expected {expected}; {_AGAIN}")
