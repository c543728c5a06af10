"""Token files: ids on disk with a header that says what they mean, memory-mapped where they are read."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from jaxgpt.config import RequestError, WorkError, blamed_on

from .disk import put_in_place
from .regular import check_regular
from .token_header import MAGIC, TokenHeader, token_dtype
from .token_ids import check_token_ids
from .tokenizer import Tokenizer, tokenizer_from_json

_PIECE = 1 << 20  # ids that a check holds at a time
_DAMAGED = "the file is damaged; get another copy, or write it again with `jaxgpt data prepare`"


@dataclasses.dataclass(frozen=True, eq=False)
class TokenFile:
    """An open token file.

    Attributes:
        path: where it lies.
        header: what it says about its ids.
        ids_N: the ids, memory-mapped, read-only, uint16 or uint32 [N].
        tokenizer: the tokenizer that made them.

    Example:
        >>> import tempfile
        >>> from jaxgpt.data import ByteTokenizer
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "hi.tokens"
        ...     write_token_file(path, [104, 105], ByteTokenizer(), source="two letters")
        ...     tokens = TokenFile.open(path)
        ...     tokens.check()
        ...     tokens.ids_N.tolist(), tokens.tokenizer.decode(tokens.ids_N), tokens.header.dtype
        ([104, 105], 'hi', 'uint16')
    """

    path: Path
    header: TokenHeader
    ids_N: np.memmap
    tokenizer: Tokenizer
    _start: int = dataclasses.field(repr=False)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a token file; its header and its length are checked, its ids are not (see `check`).

        Raises:
            RequestError: it cannot be read, is no token file, or is damaged, longer or shorter than its header says.
        """
        path = Path(path)
        check_regular(path)
        with blamed_on(str(path)), _readable(), path.open("rb") as file:
            header = TokenHeader.read(file)
            start, dtype = file.tell(), token_dtype(header.vocab_size)
            _check_length(os.fstat(file.fileno()).st_size - start, header.count * dtype.itemsize, header)
            tokenizer = _tokenizer_of(header)
            ids_N = np.memmap(file, dtype, mode="r", offset=start, shape=(header.count,))
        return cls(path, header, ids_N, tokenizer, start)

    def check(self, progress: Callable[[int], None] | None = None) -> None:
        """Read all ids once, a piece at a time: each is in the vocabulary, and together they have the header's hash.

        Args:
            progress: called after each piece with the number of ids read so far.

        Raises:
            RequestError: the first id outside the vocabulary with its place, another hash, or a file that became
                shorter.
        """
        digest, done = hashlib.sha256(), 0
        with blamed_on(str(self.path)):
            for ids_N in self._pieces():
                _check_vocabulary(ids_N, self.header.vocab_size, done)
                digest.update(ids_N)
                done += len(ids_N)
                if progress is not None:
                    progress(done)
            if done != self.header.count or digest.hexdigest() != self.header.sha256:
                raise RequestError(
                    f"its {done:,} ids have the sha256 {digest.hexdigest()[:12]}, but its header says "
                    f"{self.header.count:,} with {self.header.sha256[:12]}; {_DAMAGED}"
                )

    def _pieces(self) -> Iterator[np.ndarray]:
        """Yield the ids as they are read, not mapped: a file that is cut meanwhile ends early instead of a crash."""
        with _readable(), self.path.open("rb") as file:
            file.seek(self._start)
            itemsize = self.ids_N.dtype.itemsize
            while content := file.read(_PIECE * itemsize):
                yield np.frombuffer(content[: len(content) // itemsize * itemsize], self.ids_N.dtype)


def is_token_file(path: str | Path) -> bool:
    """Return whether a file begins as token files do; one that cannot be read is none.

    >>> is_token_file("no/such/file")
    False
    """
    try:
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return False


def write_token_file(
    path: str | Path,
    ids_N: ArrayLike,
    tokenizer: Tokenizer,
    *,
    source: str,
    end_id: int | None = None,
    documents: int | None = None,
) -> None:
    """Write ids that a program holds in memory as a token file (`jaxgpt data prepare` writes one from texts).

    Args:
        path: the file; one that is there is replaced, once the new one is whole and on disk.
        ids_N: whole numbers in the tokenizer's vocabulary [N], at least one.
        tokenizer: the tokenizer that they are of.
        source: what was read, in words.
        end_id: the id after each document, None where nothing stands between documents.
        documents: the number of documents, None where it is not known.

    Raises:
        RequestError: no ids, ids that are not one row, or one outside the vocabulary.
        WorkError: the disk refused.
    """
    check_token_ids(ids_N, tokenizer.vocab_size, "token file")
    dtype = token_dtype(tokenizer.vocab_size)
    content = np.asarray(ids_N).astype(dtype)
    if content.ndim != 1 or not content.size:
        raise RequestError(f"token file: expected one row of ids, at least one, got shape {content.shape}")
    header = TokenHeader(
        vocab_size=tokenizer.vocab_size,
        dtype=dtype.name,
        count=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        end_id=end_id,
        documents=documents,
        source=source,
        tokenizer=tokenizer.to_json(),
        tokenizer_hash=tokenizer.fingerprint(),
    )
    _write(Path(path), header.to_bytes(), content.data)


def _write(path: Path, *parts: bytes | memoryview) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            for part in parts:
                file.write(part)
        put_in_place(temporary, path, os.replace)
    except OSError as error:
        raise WorkError(f"cannot write {path}: {error.strerror}; free space or name another folder") from None
    finally:
        temporary.unlink(missing_ok=True)


def _check_length(found: int, expected: int, header: TokenHeader) -> None:
    if found != expected:
        what = f"{expected - found:,} bytes are missing" if found < expected else f"{found - expected:,} too many"
        raise RequestError(
            f"its header says {header.count:,} ids of {header.dtype}, {expected:,} bytes, but {found:,} follow "
            f"({what}); {_DAMAGED}"
        )


def _tokenizer_of(header: TokenHeader) -> Tokenizer:
    tokenizer = tokenizer_from_json(header.tokenizer)
    found = (tokenizer.vocab_size, tokenizer.fingerprint())
    if found != (header.vocab_size, header.tokenizer_hash):
        raise RequestError(
            f"its header says {header.vocab_size} ids with the hash {header.tokenizer_hash[:12]}, but the tokenizer "
            f"in it has {found[0]} with {found[1][:12]}; {_DAMAGED}"
        )
    return tokenizer


def _check_vocabulary(ids_N: np.ndarray, vocab_size: int, before: int) -> None:
    outside_N = ids_N >= vocab_size
    if outside_N.any():
        place = int(outside_N.argmax())
        raise RequestError(
            f"id {ids_N[place]} at position {before + place:,} is outside 0..{vocab_size - 1}, its vocabulary of "
            f"{vocab_size}; {_DAMAGED}"
        )


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        if isinstance(error, RequestError):
            raise
        reason = error.strerror if isinstance(error, OSError) else error
        raise RequestError(f"cannot be read: {reason}; give a token file") from None
