"""Ids that lie in a file: jaxgpt's token files, nanoGPT's headerless `.bin` and llm.c's; mapped, never read whole."""

from __future__ import annotations

import codecs
import dataclasses
import hashlib
import os
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from jaxgpt.config import RequestError, blamed_on

from .corpus import take_part
from .foreign import PICKLE, foreign_kind
from .regular import Stamp, check_regular
from .source import Part, Say
from .token_file import TokenFile, is_token_file
from .tokenizer import Tokenizer

_PIECE = 1 << 22  # ids that a check holds at a time
_HEAD = 1 << 16  # bytes by which a text is told from ids
_SECONDS_IN_SILENCE = 5.0
_TELLING = 16  # ids: in fewer, every second one may well be 0


class _Layout(NamedTuple):
    """How a program lays out its ids behind a header of 256 int32: magic, version, number of ids."""

    version: int
    dtype: str


# llm.c: dev/data/data_common.py; the first is of GPT-2's vocabulary, the second of Llama 3's.
_LLM_C = {20240520: _Layout(1, "<u2"), 20240801: _Layout(7, "<u4")}
_HEADER_INTS = 256


@dataclasses.dataclass(frozen=True, eq=False)
class StoredIds:
    """The ids of a file.

    Attributes:
        source: The file's path.
        kind: What holds them, in words.
        ids_N: The ids, memory-mapped, read-only, uint16 or uint32 [N].
        file: The token file, which brings its tokenizer and hash along; None for a `.bin`.
        has_header: Whether the file says of which type its ids are.
        sha256: Of the ids' bytes, hex; empty until they are checked.
        end_id: The id after each document, None where none is known or none occurs.
        stamp: Of the file when it was opened; None of ids that are in memory.
    """

    source: str
    kind: str
    ids_N: np.ndarray
    file: TokenFile | None = None
    has_header: bool = True
    sha256: str = ""
    end_id: int | None = None
    stamp: Stamp | None = None

    @property
    def tokenizer(self) -> Tokenizer | None:
        """That of a token file; a `.bin` has none."""
        return None if self.file is None else self.file.tokenizer

    @property
    def identity(self) -> dict[str, Any]:
        """What a run's manifest keeps: the path, the number of tokens, the hash of the ids."""
        return {"source": self.source, "tokens": len(self.ids_N), "sha256": self.sha256}

    def checked(self, tokenizer: Tokenizer, say: Say) -> Self:
        """Return the source with its hash, once each id is known to be in the vocabulary; reads the file once.

        Raises:
            RequestError: the first id outside the vocabulary with its place, ids of another size than they are read
                in, or a damaged token file.
        """
        progress = _Progress(self.source, len(self.ids_N), say)
        if self.file is not None:
            self.file.check(progress)
            return dataclasses.replace(self, sha256=self.file.header.sha256, end_id=self.file.header.end_id)
        end_id, digest, ends = tokenizer.special_ids.get("eos"), hashlib.sha256(), 0
        sizes = _SizeCheck(self, tokenizer.vocab_size)
        for first in range(0, len(self.ids_N), _PIECE):
            piece_N = np.asarray(self.ids_N[first : first + _PIECE])
            _check_piece(piece_N, tokenizer.vocab_size, first, self.source)
            digest.update(piece_N)
            sizes.take(piece_N)
            ends += 0 if end_id is None else int((piece_N == end_id).sum())
            progress(first + len(piece_N))
        sizes.end()
        return dataclasses.replace(self, sha256=digest.hexdigest(), end_id=end_id if ends else None)

    def ids(self, tokenizer: Tokenizer, part: Part, validation_fraction: float) -> np.ndarray:
        """Return the ids of a part, cut by their number; mapped, so that only what is used is read."""
        del tokenizer
        return take_part(self.ids_N, validation_fraction, part)

    def byte_counts(self, tokenizer: Tokenizer, part: Part, validation_fraction: float) -> np.ndarray | None:
        """Return the bytes of the ids of a part [N]; None for a tokenizer whose ids do not tell."""
        bytes_V = tokenizer.id_bytes()
        if bytes_V is None:
            return None
        narrow_V = bytes_V.astype(np.min_scalar_type(bytes_V.max()))  # one byte for each id, however many there are
        return narrow_V[take_part(self.ids_N, validation_fraction, part)]


def _check_piece(piece_N: np.ndarray, vocab_size: int, first: int, name: str) -> None:
    outside_N = piece_N >= vocab_size
    if outside_N.any():
        place = int(outside_N.argmax())
        raise RequestError(
            f"{name}: id {piece_N[place]} at position {first + place:,} is outside 0..{vocab_size - 1}, the "
            "vocabulary of data.tokenizer; name the tokenizer that the file was written with"
        )


class _SizeCheck:
    """Tells ids of 32 bits that are read as of 16: every second one is then 0."""

    def __init__(self, stored: StoredIds, vocab_size: int) -> None:
        self._name, self._count = stored.source, 0
        self._may_be_wide = not stored.has_header and stored.ids_N.dtype.itemsize == 2
        self._is_used = [False, False]  # whether the ids at even, and at odd positions are other than 0
        if self._may_be_wide and vocab_size > 1 << 16:
            raise RequestError(
                f"{self._name} is read as uint16 ids, which do not hold those of a tokenizer of {vocab_size:,}; if "
                "it was written as uint32, say so with data.format uint32"
            )

    def take(self, piece_N: np.ndarray) -> None:
        """Look at a piece of an even number of ids, or at the last one."""
        self._count += len(piece_N)
        if self._may_be_wide and not all(self._is_used):
            self._is_used = [self._is_used[parity] or bool(piece_N[parity::2].any()) for parity in (0, 1)]

    def end(self) -> None:
        """Refuse the file, once all of it was looked at."""
        if not self._may_be_wide or self._count < _TELLING or self._is_used[0] == self._is_used[1]:
            return
        advice = "say so with data.format uint32" if self._is_used[0] else "write them with the low byte first"
        raise RequestError(
            f"{self._name} is read as uint16 ids, and every second one is 0, as if they were of 32 bits; {advice}"
        )


class _Progress:
    """Says how far a check has come, where it takes long."""

    def __init__(self, name: str, count: int, say: Say) -> None:
        self._name, self._count, self._say, self._last = name, count, say, time.monotonic()

    def __call__(self, done: int) -> None:
        if time.monotonic() - self._last > _SECONDS_IN_SILENCE:
            self._say(f"checking {self._name}: {done:,} of {self._count:,} ids")
            self._last = time.monotonic()


def open_stored(path: str, form: str, name: str) -> StoredIds | None:
    """Return the ids in a file; None where it holds text.

    A header decides. Without one a file named `.bin` that does not begin as UTF-8 text does holds uint16 ids, as
    nanoGPT writes them; `form` "text", "uint16" or "uint32" says it outright.

    Args:
        path: The file.
        form: `data.format`; it means nothing for a file with a header.
        name: The option that gave the path, in the words that begin a message.

    Raises:
        RequestError: the file cannot be read, is no regular one, is damaged, of another kind, or may hold either.
    """
    head = _head(path, name)
    magic = int.from_bytes(head[:4], "little")
    stamp = Stamp.of(path)
    if is_token_file(path):
        return dataclasses.replace(_token_file(path), stamp=stamp)
    if magic in _LLM_C and len(head) >= 4:
        return dataclasses.replace(_llm_c(path, magic, name), stamp=stamp)
    if form == "text" or (form == "auto" and _is_text(head)):
        return None
    _refuse_foreign(path, head, name)
    if form == "auto" and not path.endswith(".bin"):
        if b"\0" not in head:
            return None  # the reader of texts says what is wrong
        raise RequestError(
            f"{name}: {path!r} has bytes of zero, so it may hold ids, or text that is not UTF-8; say what it is: "
            "data.format uint16 (or uint32) for ids without a header as nanoGPT writes them, data.format text for "
            "UTF-8 text"
        )
    return dataclasses.replace(_headerless(path, "<u4" if form == "uint32" else "<u2", name), stamp=stamp)


def _refuse_foreign(path: str, head: bytes, name: str) -> None:
    foreign = foreign_kind(head)
    if foreign is None or (foreign[0] == PICKLE and not _ends_as_a_pickle(path)):
        return
    raise RequestError(f"{name}: {path!r} holds no ids but is {foreign[0]}; {foreign[1]}")


def _ends_as_a_pickle(path: str) -> bool:
    with Path(path).open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"."


def _head(path: str, name: str) -> bytes:
    with blamed_on(name):
        check_regular(path)
    try:
        with Path(path).open("rb") as file:
            return file.read(_HEAD)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise RequestError(f"{name}: cannot read {path!r}: {reason}; give a readable file") from None


def _is_text(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # not final: a character may be cut at the end
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def _token_file(path: str) -> StoredIds:
    tokens = TokenFile.open(path)
    return StoredIds(str(Path(path).resolve()), "a token file", tokens.ids_N, tokens)


def _headerless(path: str, dtype: str, name: str) -> StoredIds:
    size, ids = Path(path).stat().st_size, np.dtype(dtype)
    if size % ids.itemsize or not size:
        raise RequestError(
            f"{name}: {path!r} has {size:,} bytes, which are no whole number of {ids.name} ids; it is damaged, or no "
            "file of ids"
        )
    kind = f"{ids.name} ids without a header"
    return StoredIds(str(Path(path).resolve()), kind, np.memmap(path, dtype, mode="r"), has_header=False)


def _llm_c(path: str, magic: int, name: str) -> StoredIds:
    layout, size = _LLM_C[magic], Path(path).stat().st_size
    start = 4 * _HEADER_INTS
    if size <= start:
        raise RequestError(
            f"{name}: {path!r} has {size:,} bytes, but llm.c's header alone takes {start:,}; it is cut"
        )
    header = np.fromfile(path, "<i4", _HEADER_INTS)
    version, count, itemsize = int(header[1]), int(header[2]), np.dtype(layout.dtype).itemsize
    if version != layout.version:
        raise RequestError(
            f"{name}: {path!r} has llm.c's magic {magic} with version {version}, expected {layout.version}; write it "
            "again with llm.c's own script"
        )
    if count * itemsize != size - start:
        raise RequestError(
            f"{name}: {path!r} says that {count:,} ids of {itemsize} bytes follow its header, but {size - start:,} "
            "bytes do; it is cut or damaged, get another copy"
        )
    ids_N = np.memmap(path, layout.dtype, mode="r", offset=start)
    return StoredIds(str(Path(path).resolve()), f"llm.c's ids, {8 * itemsize} bits each", ids_N)
