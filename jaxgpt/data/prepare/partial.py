"""The token file that is not done: OUT.partial with OUT.journal, held by one process, given its name at the end."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from jaxgpt.config import RequestError, WorkError, warn

from ..token_file import put_in_place
from ..token_header import TokenHeader, token_dtype
from .journal import Entry, Journal, write_all
from .reading import BLOCK

_WORDS = {"inputs": "other files", "tokenizer": "another tokenizer", "libraries": "other versions of the libraries"}


def partial_path(out: Path) -> Path:
    """Return the path of the ids so far."""
    return out.with_name(f"{out.name}.partial")


def journal_path(out: Path) -> Path:
    """Return the path of the journal."""
    return out.with_name(f"{out.name}.journal")


class PartialFile:
    """Ids that grow behind the room for a header. One process at a time; what is secured outlives it.

    Attributes:
        entry: the state that is written, secured or not.
    """

    def __init__(self, out: Path, header: TokenHeader, descriptor: int, journal: Journal) -> None:
        self._out, self._header, self._descriptor, self._journal = out, header, descriptor, journal
        self._room = len(header.to_bytes())
        self._itemsize = token_dtype(header.vocab_size).itemsize
        self._hash = hashlib.sha256()
        self.entry = Entry()

    @classmethod
    @contextlib.contextmanager
    def hold(cls, out: Path, header: TokenHeader) -> Iterator[Self]:
        """Open what is there of `out`, or begin it, for this process alone.

        Args:
            out: the token file that it will be.
            header: its header, but for what is not yet counted.

        Raises:
            RequestError: another process holds it.
            WorkError: the disk refuses, then or in the block.
        """
        with _disk(out), contextlib.ExitStack() as held:
            descriptor = _locked(out)
            held.callback(os.close, descriptor)
            journal = Journal(journal_path(out))
            held.callback(journal.close)
            try:
                yield cls(out, header, descriptor, journal)
            finally:
                if not journal.entries:  # done, or nothing that is worth keeping
                    partial_path(out).unlink(missing_ok=True)
                    journal_path(out).unlink(missing_ok=True)

    def resume(self, request: dict[str, Any], progress: Callable[[int], None]) -> None:
        """Go to the last secured state whose ids are as they were, or to the beginning.

        Args:
            request: all that decides the ids; one that differs from the recorded one is refused.
            progress: called with the number of bytes of each block that is read.

        Raises:
            RequestError: it was begun for another request.
        """
        if not self._journal.entries:
            self._begin(request)
            return
        self._check_request(request)
        kept, self.entry = self._verified(progress)
        if kept < len(self._journal.entries):
            warn(
                f"{partial_path(self._out)} is damaged after {self.entry.ids:,} of "
                f"{self._journal.entries[-1].ids:,} ids; what follows is made again"
            )
        self._journal.keep(kept)
        os.ftruncate(self._descriptor, self._room + self.entry.ids * self._itemsize)

    def _begin(self, request: dict[str, Any]) -> None:
        os.ftruncate(self._descriptor, 0)
        os.ftruncate(self._descriptor, self._room)
        os.fsync(self._descriptor)
        self._journal.begin(request)

    def _check_request(self, request: dict[str, Any]) -> None:
        recorded = self._journal.request
        different = [name for name in request if recorded.get(name) != request[name]]
        if different or recorded.keys() != request.keys():
            was = ", ".join(
                _WORDS.get(name, f"{name.replace('_', ' ')} {recorded.get(name)!r}") for name in different
            )
            raise RequestError(
                f"{partial_path(self._out)} was begun with {was or 'another version of this program'}; repeat the "
                f"command it was begun with, {self.begin_again()}"
            )

    def begin_again(self) -> str:
        """Return how to begin again, in words."""
        return f"or delete {partial_path(self._out)} and {journal_path(self._out).name} to begin again"

    def _verified(self, progress: Callable[[int], None]) -> tuple[int, Entry]:
        """Read the ids; return the number of entries that they agree with, and the last of those."""
        digest, place, good = hashlib.sha256(), self._room, Entry()
        for number, entry in enumerate(self._journal.entries):
            end = self._room + entry.ids * self._itemsize
            while place < end and (content := os.pread(self._descriptor, min(BLOCK, end - place), place)):
                digest.update(content)
                place += len(content)
                progress(len(content))
            if place != end or digest.hexdigest() != entry.sha256:
                return number, good
            self._hash, good = digest.copy(), entry
        return len(self._journal.entries), good

    def append(self, parts: Sequence[memoryview], entry: Entry) -> None:
        """Write ids behind the others; `entry` is the state with them, its hash left open."""
        place = self._room + self.entry.ids * self._itemsize
        for ids_N in parts:
            write_all(self._descriptor, ids_N, place)
            self._hash.update(ids_N)
            place += ids_N.nbytes
        self.entry = dataclasses.replace(entry, sha256=self._hash.hexdigest())

    def secure(self) -> None:
        """Bring the ids, and then the entry that speaks of them, to the disk."""
        if self.entry.ids and self.entry not in self._journal.entries[-1:]:
            os.fsync(self._descriptor)
            self._journal.add(self.entry)

    def finish(self, source: str) -> TokenHeader:
        """Write the header, give the file its name and take the journal away; return the header."""
        header = dataclasses.replace(
            self._header,
            count=self.entry.ids,
            sha256=self.entry.sha256,
            documents=self.entry.documents,
            source=source,
        )
        write_all(self._descriptor, header.to_bytes(self._room), 0)
        put_in_place(partial_path(self._out), self._out)
        remove_journal(self._out)
        return header


def remove_journal(out: Path) -> None:
    """Take away the journal of a file that is done."""
    journal_path(out).unlink(missing_ok=True)


def _locked(out: Path) -> int:
    """Return the open file of ids, locked; the kernel drops the lock when the process ends, however it ends."""
    path = partial_path(out)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_at(path, descriptor):  # the other process has just given it its name
            raise BlockingIOError
    except BlockingIOError:
        os.close(descriptor)
        raise RequestError(
            f"another process prepares {out}; wait until it ends, stop it, or name another file with --out"
        ) from None
    return descriptor


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _disk(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WorkError(
            f"cannot write {partial_path(out)}: {error.strerror}; what was written so far is kept: free space or "
            "make the folder writable, then run the same command again"
        ) from None
