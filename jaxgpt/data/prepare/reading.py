"""Files as jobs for the workers, each with the place from which reading can go on after it."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO, NamedTuple

from jaxgpt.config import RequestError, blamed_on, some

from ..corpus import decode_utf8
from ..tokenizer.checks import utf8_bytes
from .inputs import OPTION, Input
from .pieces import Cutting, cut_pieces

BLOCK = 1 << 19  # bytes of a piece; also the least that a job holds


@dataclasses.dataclass(frozen=True)
class Mark:
    """A place between two jobs.

    Attributes:
        file: number of the input, 0-based.
        offset: bytes of it that are read.
        line: lines of it that are read, where it is JSONL.
        finished: sha256 (hex) of the list of the inputs before it, as `sha256sum` prints it.
        begun: sha256 (hex) of what is read of this one.
    """

    file: int = 0
    offset: int = 0
    line: int = 0
    finished: str = hashlib.sha256().hexdigest()
    begun: str = hashlib.sha256().hexdigest()


class Segment(NamedTuple):
    """A document, or a part of one that can be encoded by itself; `place` names it in messages."""

    text: str
    ends_document: bool
    place: str


class Job(NamedTuple):
    """Segments to encode in order, the bytes of input that they were, and the mark after them.

    The mark is None in the midst of a document that reading cannot go on in.
    """

    segments: list[Segment]
    size: int
    mark: Mark | None


class _Part(NamedTuple):
    """A segment and the bytes of the file that are read with it; without any, reading cannot go on after it."""

    segment: Segment
    raw: bytes


class InputHashes:
    """Hashes what is read of the inputs, byte by byte in order, so that a later call knows it again."""

    def __init__(self) -> None:
        self._finished, self._begun = hashlib.sha256(), hashlib.sha256()
        self._last = ""

    def update(self, content: bytes) -> None:
        """Add bytes of the file that is read."""
        self._begun.update(content)

    def finish(self, one: Input) -> None:
        """End a file."""
        self._last = self._begun.hexdigest()
        self._finished.update(f"{self._last}  {one.path}\n".encode("utf-8", "surrogateescape"))
        self._begun = hashlib.sha256()

    def mark(self, file: int, offset: int, line: int) -> Mark:
        """Return the place that is reached."""
        return Mark(file, offset, line, self._finished.hexdigest(), self._begun.hexdigest())

    def of_all(self, count: int) -> str:
        """Return the hash of one file, or of the list of several, when all are read."""
        return self._last if count == 1 else self._finished.hexdigest()


class Reader:
    """Reads inputs from a mark on.

    Args:
        inputs: the files.
        cutting: how documents may be cut.
        field: the field of a JSONL object that holds its text.
    """

    def __init__(self, inputs: Sequence[Input], cutting: Cutting, field: str) -> None:
        self._inputs, self._cutting, self._field = inputs, cutting, field
        self.hashes = InputHashes()

    def skip_to(self, mark: Mark, progress: Callable[[int], None]) -> None:
        """Read, and only hash, what lies before a mark.

        Args:
            mark: where to go.
            progress: called with the number of bytes of each block.

        Raises:
            RequestError: it is not what was read before.
        """
        for one in self._inputs[: mark.file]:
            self._hash(one, one.size, progress)
            self.hashes.finish(one)
        if mark.offset:
            self._hash(self._inputs[mark.file], mark.offset, progress)
        if self.hashes.mark(mark.file, mark.offset, mark.line) != mark:
            raise RequestError(
                f"{OPTION}: what an earlier call read of {some([str(one.path) for one in self._inputs])} is not "
                "there any more, a file has changed"
            )

    def digest(self, progress: Callable[[int], None]) -> str:
        """Read, and only hash, all inputs; return the hash that a token file's source names."""
        for one in self._inputs:
            self._hash(one, one.size, progress)
            self.hashes.finish(one)
        return self.hashes.of_all(len(self._inputs))

    def _hash(self, one: Input, size: int, progress: Callable[[int], None]) -> None:
        with _opened(one) as file:
            while size and (content := file.read(min(BLOCK, size))):
                self.hashes.update(content)
                size -= len(content)
                progress(len(content))

    def jobs(self, start: Mark) -> Iterator[Job]:
        """Yield jobs of about `BLOCK` bytes from the mark on, to which the hashes must have come.

        Raises:
            RequestError: an input that is no UTF-8, has a wrong line or changes while it is read.
        """
        for number, one in enumerate(self._inputs[start.file :], start.file):
            begin = start if number == start.file else Mark()
            yield from self._jobs_of(number, one, begin)

    def _jobs_of(self, number: int, one: Input, begin: Mark) -> Iterator[Job]:
        segments: list[Segment] = []
        offset, line, size, characters = begin.offset, begin.line, 0, 0
        with _opened(one) as file:
            before = _state(file)
            file.seek(offset)
            parts = _lines if one.is_lines else _text
            for segment, raw in parts(file, one, begin, self._cutting, self._field):
                segments.append(segment)
                self.hashes.update(raw)
                size, characters = size + len(raw), characters + len(segment.text)
                line += one.is_lines and bool(raw)
                if characters >= BLOCK // 2:
                    offset += size
                    yield Job(segments, size, self.hashes.mark(number, offset, line) if raw else None)
                    segments, size, characters = [], 0, 0
            if _state(file) != before or before[0] != one.size:
                raise RequestError(f"{OPTION}: '{one.path}' changed while it was read; let nothing write to it")
        self.hashes.finish(one)
        yield Job(segments, size, self.hashes.mark(number + 1, 0, 0))


@contextlib.contextmanager
def _opened(one: Input) -> Iterator[BinaryIO]:
    try:
        with one.path.open("rb") as file:
            yield file
    except OSError as error:
        raise RequestError(f"{OPTION}: cannot read '{one.path}': {error.strerror}; make it readable") from None


def _state(file: BinaryIO) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns


def _text(file: BinaryIO, one: Input, begin: Mark, cutting: Cutting, field: str) -> Iterator[_Part]:
    """Yield the pieces of a document that is a whole file."""
    del field
    offset = begin.offset
    for raw, is_last in cut_pieces(iter(partial(file.read, BLOCK), b""), cutting.last_cut):
        text = decode_utf8(raw, str(one.path), OPTION, start=offset)
        yield _Part(Segment(text, is_last, f"{one.path}, in the text from byte {offset} on"), raw)
        offset += len(raw)


def _lines(file: BinaryIO, one: Input, begin: Mark, cutting: Cutting, field: str) -> Iterator[_Part]:
    """Yield the documents of a JSONL file; those longer than a block, where they may be cut, in pieces."""
    for number, raw in enumerate(iter(file.readline, b""), begin.line + 1):
        place = f"{one.path}, line {number}"
        with blamed_on(place):
            text = _document(raw, field)
            content = utf8_bytes(text) if len(text) > BLOCK else b""
        if not content:
            yield _Part(Segment(text, True, place), raw)
            continue
        blocks = (content[i : i + BLOCK] for i in range(0, len(content), BLOCK))
        for piece, is_last in cut_pieces(blocks, cutting.last_cut):
            yield _Part(Segment(piece.decode("utf-8"), is_last, place), raw if is_last else b"")


def _document(raw: bytes, field: str) -> str:
    """Return the text of one line."""
    if not raw.strip():
        raise RequestError("it is empty; take the line out")
    try:
        record = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise RequestError(
            f"not UTF-8: byte 0x{raw[error.start]:02X} at byte {error.start} of the line; convert the file"
        ) from None
    except (ValueError, RecursionError) as error:
        raise RequestError(f"not JSON ({error}); each line holds one whole JSON object") from None
    return _field_of(record, field)


def _field_of(record: Any, field: str) -> str:
    if not isinstance(record, dict):
        raise RequestError(f"expected a JSON object with the field {field!r}, got {json.dumps(record)[:60]}")
    if field not in record:
        raise RequestError(
            f"no field {field!r} (it has {some(list(map(repr, record)))}); name the field that holds the text with "
            "--field"
        )
    if not isinstance(record[field], str):
        raise RequestError(f"its field {field!r} is {json.dumps(record[field])[:60]}, expected text")
    if not record[field]:
        raise RequestError(f"its field {field!r} is empty; take the line out")
    return record[field]
