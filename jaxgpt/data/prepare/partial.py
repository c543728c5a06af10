"""The token file that is not done: OUT.partial with OUT.journal, held by one process, given its name at the end."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from jaxgpt.config import RequestError, WorkError, warn

from ..disk import put_in_place
from ..token_header import TokenHeader, token_dtype
from .journal import Entry, Journal, is_beginning, is_journal, write_all
from .reading import BLOCK

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_WORDS = {
    "inputs": "other files, or other spellings of their names",
    "tokenizer": "another tokenizer",
    "libraries": "other versions of the libraries",
}


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

    def __init__(
        self, out: Path, header: TokenHeader, request: dict[str, Any], descriptor: int, journal: Journal
    ) -> None:
        self._out, self._header, self._request = out, header, request
        self._descriptor, self._journal = descriptor, journal
        self._room = len(header.to_bytes())
        self._itemsize = token_dtype(header.vocab_size).itemsize
        self._hash = hashlib.sha256()
        self.entry = Entry()

    @classmethod
    @contextlib.contextmanager
    def hold(cls, out: Path, header: TokenHeader, request: dict[str, Any]) -> Iterator[Self]:
        """Open what is there of `out`, or begin it, for this process alone.

        Args:
            out: the token file that it will be.
            header: its header, but for what is not yet counted.
            request: all that decides the ids; one that differs from the recorded one is refused by `resume`.

        Raises:
            RequestError: another process holds it, another version of the program has begun it, or files of its names
                are there that no call has left.
            WorkError: the disk refuses, then or in the block.
        """
        with _disk(out), contextlib.ExitStack() as held:
            _check_ours(out, request)
            descriptor = _locked(out)
            held.callback(os.close, descriptor)
            journal = Journal(journal_path(out))
            held.callback(journal.close)
            try:
                yield cls(out, header, request, descriptor, journal)
            finally:
                if not journal.entries:  # done, or nothing that is worth keeping
                    partial_path(out).unlink(missing_ok=True)
                    journal_path(out).unlink(missing_ok=True)

    def resume(self, progress: Callable[[int], None]) -> None:
        """Go to the last secured state whose ids are as they were, or to the beginning.

        Args:
            progress: called with the number of bytes of each block that is read.

        Raises:
            RequestError: it was begun for another request.
        """
        if not self._journal.entries:
            self._begin()
            return
        self._check_request()
        kept, self.entry = self._verified(progress)
        if kept < len(self._journal.entries):
            warn(
                f"{partial_path(self._out)} is damaged after {self.entry.ids:,} of "
                f"{self._journal.entries[-1].ids:,} ids; what follows is made again"
            )
        self._journal.keep(kept)
        os.ftruncate(self._descriptor, self._room + self.entry.ids * self._itemsize)

    def _begin(self) -> None:
        """Begin so that ids are there only beside a journal that says whose they are."""
        os.ftruncate(self._descriptor, 0)
        os.fsync(self._descriptor)
        self._journal.begin(self._request)
        os.ftruncate(self._descriptor, self._room)

    def _check_request(self) -> None:
        request, recorded = self._request, self._journal.request
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
        """Write the header, give the file its name and take the rest away; return the header.

        Raises:
            WorkError: there is a file of that name meanwhile.
        """
        header = dataclasses.replace(
            self._header,
            count=self.entry.ids,
            sha256=self.entry.sha256,
            documents=self.entry.documents,
            source=source,
        )
        write_all(self._descriptor, header.to_bytes(self._room), 0)
        try:
            put_in_place(partial_path(self._out), self._out, _give_free_name)
        except FileExistsError:
            raise WorkError(
                f"{self._out} has appeared since this was begun, and nothing is overwritten; all that was done is "
                f"kept in {partial_path(self._out)}: move {self._out} away, then run the same command again"
            ) from None
        remove_rest(self._out)
        return header


def remove_rest(out: Path) -> None:
    """Take away what may still be beside a file that is done: the name it had before, then its journal.

    Raises:
        WorkError: the disk refuses.
    """
    path = partial_path(out)
    with _disk(out):
        if not is_journal(journal_path(out)):
            return
        with contextlib.suppress(FileNotFoundError):
            if path.samefile(out):
                path.unlink()
        if not os.path.lexists(path):
            journal_path(out).unlink(missing_ok=True)


def _give_free_name(temporary: Path, path: Path) -> None:
    """Give a file a second name, which must be free; where names cannot be two, another one."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            raise FileExistsError from None
        os.replace(temporary, path)


def _check_ours(out: Path, request: dict[str, Any]) -> None:
    """Refuse files that no call has left; only what a journal begins with says that one has."""
    ids, journal = partial_path(out), journal_path(out)
    there = [path for path in (ids, journal) if os.path.lexists(path)]
    ours = all(path.is_file() and not path.is_symlink() for path in there)
    if ours and any(path.stat().st_size for path in there) and not is_journal(journal):
        ours = is_beginning(journal, request) and not (ids in there and ids.stat().st_size)
    if not ours:
        raise RequestError(
            f"nothing says that an earlier call has left {' and '.join(map(str, there))} ({journal.name} is gone, "
            "damaged or another program's), and nothing is overwritten: move that away, or name another file with "
            "--out"
        )


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
            f"cannot write {error.filename or partial_path(out)}: {error.strerror}; what was written so far is kept: "
            f"{'free space' if error.errno in _FULL else 'mend that'}, then run the same command again"
        ) from None
