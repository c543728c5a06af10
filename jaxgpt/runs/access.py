"""Telling a checkpoint that is damaged from one that this process may not, or cannot at the moment, read."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_OF_THIS_PROCESS = {errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
_TENSORSTORE_EXHAUSTED = "RESOURCE_EXHAUSTED"  # how its messages begin when files or memory ran out


def obstacle(error: Exception, folder: Path) -> str | None:
    """Return what kept this process from reading the files in `folder`, or None where they are to blame.

    Orbax reports a folder that may not be entered as one that is missing, so the files are tried themselves.

    Args:
        error: What the failed read raised.
        folder: The checkpoint's folder.
    """
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, OSError) and error.errno in _OF_THIS_PROCESS:
        return os.strerror(error.errno)
    if str(error).startswith(_TENSORSTORE_EXHAUSTED):
        return "out of memory, or too many open files"
    return _first_refusal(folder)


def _first_refusal(folder: Path) -> str | None:
    """Open every file below `folder` for reading; return why the first one refused."""
    refusals: list[OSError] = []
    for root, _, names in os.walk(folder, onerror=refusals.append):
        for name in names:
            try:
                os.close(os.open(Path(root) / name, os.O_RDONLY))
            except OSError as error:
                refusals.append(error)
    of_this_process = [error for error in refusals if error.errno in _OF_THIS_PROCESS]
    return f"{of_this_process[0].filename}: {of_this_process[0].strerror}" if of_this_process else None
