"""Replacing a small text file so that a reader, or a crash, sees the old text or the new, never a part."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to `path` by way of a temporary file in the same folder.

    The file is on disk before the rename and the folder after it, so a power cut cannot leave an empty file
    under the final name.

    Raises:
        OSError: the folder is missing or read-only, or the disk is full; `path` is then as it was.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
