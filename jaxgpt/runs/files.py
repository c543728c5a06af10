"""Replacing a small text file so that a reader, or a crash, sees the old text or the new, never a part."""

from __future__ import annotations

import os
from pathlib import Path

from jaxgpt.config import WorkError


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
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def sync(path: Path) -> None:
    """Return once a file's contents, or a folder's list of names, are on disk; OSError where the disk refuses."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_still_there(folder: Path) -> None:
    """Refuse to write into a folder that a run has lost, before anything makes it anew.

    Raises:
        WorkError: the folder is not there.
    """
    if not folder.is_dir():
        raise WorkError(
            f"{folder} is gone, removed or moved while the run was writing to it; nothing was written in its place: "
            "continue the run where it lies now, or start it again"
        )
