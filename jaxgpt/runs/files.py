"""Replacing a small text file so that a reader, or a crash, sees the old text or the new, never a part."""

from __future__ import annotations

import os
import re
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path

from jaxgpt.config import WorkError
from jaxgpt.data.disk import put_in_place

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.\d+")


def write_atomically(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to `path` by way of a temporary file in the same folder.

    The file is on disk before the rename and the folder after it, so a power cut cannot leave an empty file
    under the final name.

    Raises:
        WorkError: the folder is missing or read-only, or the disk is full; `path` is then as it was.
    """
    try:
        _replace(path, text)
    except OSError as error:
        raise WorkError(
            f"cannot write {path}: {error.strerror}; free space or make the folder writable, then try again"
        ) from None


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
        put_in_place(temporary, path, os.replace)
    finally:
        temporary.unlink(missing_ok=True)


class HeldFolder:
    """A folder that is written to for long, told from another that has taken its place meanwhile.

    It is kept open, or the other one might be given its number.

    Raises:
        OSError: there is no folder at `path`.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     held = HeldFolder(Path(folder))
        ...     held.is_there()
        True
        >>> held.is_there()
        False
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        weakref.finalize(self, os.close, self._descriptor)

    def is_there(self) -> bool:
        """Return whether the same folder still lies at its path."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._descriptor))
        except OSError:
            return False

    def check(self) -> None:
        """Refuse to write into a folder that a run has lost, before anything makes it anew.

        Raises:
            WorkError: it is not there.
        """
        if not self.is_there():
            raise WorkError(
                f"{self._path} is gone, removed or moved while the run was writing to it; nothing was written in its "
                "place: continue the run where it lies now, or start it again"
            )


def remove_leftovers(folder: Path, names: Iterable[str]) -> None:
    """Delete what killed processes left while they wrote files of these names; nobody else may write them now."""
    for path in folder.iterdir():
        if is_leftover(path.name, names):
            path.unlink()


def is_leftover(name: str, names: Iterable[str]) -> bool:
    """Return whether a file is the temporary one by way of which one of `names` is written.

    >>> is_leftover(".manifest.json.4711", ["manifest.json"]), is_leftover(".profile.1", ["manifest.json"])
    (True, False)
    """
    match = _TEMPORARY.fullmatch(name)
    return match is not None and match["name"] in names


def check_writable(folder: Path) -> None:
    """Make a file without a name in a folder, which leaves nothing; OSError where the disk refuses."""
    with tempfile.TemporaryFile(dir=folder):
        pass
