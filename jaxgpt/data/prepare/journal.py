"""What of a token file is done, in a file beside it: a line for what was asked, then one each time it was secured.

A line begins with its own hash, so one that was cut short or damaged is known; what follows it is dropped.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from pathlib import Path
from typing import Any, Self

from jaxgpt.config import RequestError, blamed_on

from .reading import Mark

_MOST_LINE = 1 << 28  # a million names of inputs; another program's file may have no line break


@dataclasses.dataclass(frozen=True)
class Entry:
    """A state that is on disk.

    Attributes:
        mark: how far the inputs are read.
        ids: number of ids written.
        sha256: hash (hex) of their bytes.
        documents: documents that ended.
        text_bytes: bytes of text (UTF-8) that the ids are of.
    """

    mark: Mark = Mark()
    ids: int = 0
    sha256: str = hashlib.sha256().hexdigest()
    documents: int = 0
    text_bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return it as a line's object."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """Rebuild an entry from `to_json`'s record.

        Raises:
            RequestError: it has other fields.
        """
        try:
            return cls(**record | {"mark": Mark(**record["mark"])})
        except (KeyError, TypeError):
            raise RequestError(
                "an entry has other fields than this version of the program writes; go on with the version it was "
                "begun with, or delete it and the ids beside it to begin again"
            ) from None


class Journal:
    """An open journal; `add` returns when its line is on disk.

    Raises:
        RequestError: another version of the program has written it.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     journal = Journal(Path(folder) / "journal")
        ...     journal.begin({"inputs": ["a.txt"]})
        ...     journal.add(Entry(ids=3))
        ...     journal.close()
        ...     again = Journal(Path(folder) / "journal")
        ...     again.close()
        >>> again.request, [entry.ids for entry in again.entries]
        ({'inputs': ['a.txt']}, [3])
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        self.request: dict[str, Any] | None = None
        self.entries: list[Entry] = []
        self._ends: list[int] = []  # where each entry's line ends
        with blamed_on(str(path)), os.fdopen(os.dup(self._descriptor), "rb") as file:
            self._read(file.read())

    def _read(self, content: bytes) -> None:
        end = 0
        for line in content.splitlines(keepends=True):
            record = _record(line)
            if record is None:
                return
            end += len(line)
            if self.request is None:
                self.request, self._begun = record, end
            else:
                self.entries.append(Entry.from_json(record))
                self._ends.append(end)

    def begin(self, request: dict[str, Any]) -> None:
        """Forget everything and write what is asked."""
        os.ftruncate(self._descriptor, 0)
        self.request, self.entries, self._ends = request, [], []
        self._begun = self._append(request, 0)

    def keep(self, count: int) -> None:
        """Drop all entries but the first `count`."""
        self.entries, self._ends = self.entries[:count], self._ends[:count]
        os.ftruncate(self._descriptor, self._end)

    def add(self, entry: Entry) -> None:
        """Append an entry."""
        self._ends.append(self._append(entry.to_json(), self._end))
        self.entries.append(entry)

    @property
    def _end(self) -> int:
        return self._ends[-1] if self._ends else self._begun

    def _append(self, record: dict[str, Any], place: int) -> int:
        line = _line(record)
        write_all(self._descriptor, line, place)
        os.fsync(self._descriptor)
        return place + len(line)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def is_journal(path: Path) -> bool:
    """Return whether a file that may be there begins as a journal does."""
    return _record(_first_line(path)) is not None


def is_beginning(path: Path, request: dict[str, Any]) -> bool:
    """Return whether a file that may be there is all that a kill has left of the first line for a request."""
    return _line(request).startswith(_first_line(path))


def _first_line(path: Path) -> bytes:
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.readline(_MOST_LINE)


def _line(record: dict[str, Any]) -> bytes:
    content = json.dumps(record, separators=(",", ":")).encode("ascii")
    return hashlib.sha256(content).hexdigest()[:16].encode("ascii") + b" " + content + b"\n"


def _record(line: bytes) -> dict[str, Any] | None:
    """Return a line's object, None if it is not whole or none."""
    digest, _, content = line.partition(b" ")
    whole = line.endswith(b"\n") and hashlib.sha256(content[:-1]).hexdigest()[:16].encode("ascii") == digest
    record = json.loads(content) if whole else None
    return record if isinstance(record, dict) else None


def write_all(descriptor: int, content: bytes | memoryview, place: int) -> None:
    """Write all of `content` at a place of a file.

    Raises:
        OSError: the disk refused; a part may be written.
    """
    content = memoryview(content).cast("B")
    while content:
        written = os.pwrite(descriptor, content, place)
        content, place = content[written:], place + written
