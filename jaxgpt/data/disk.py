"""Bringing files to the disk, so that a power cut leaves the old file or the whole new one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def sync(path: Path) -> None:
    """Return once a file's contents, or a folder's list of names, are on disk; OSError where the disk refuses."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_in_place(temporary: Path, path: Path, name: Callable[[Path, Path], None]) -> None:
    """Give a whole file its name: on disk before that, the name on disk after it.

    Args:
        temporary: where it lies.
        path: its name from now on.
        name: gives the first the name that is the second.

    Raises:
        OSError: the disk refused.
    """
    sync(temporary)
    name(temporary, path)
    sync(path.parent)
