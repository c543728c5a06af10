"""Files are read more than once, first to see what they hold: only regular ones give the same bytes again."""

from __future__ import annotations

import os

from jaxgpt.config import RequestError


def check_regular(path: str | os.PathLike[str]) -> None:
    """Refuse a pipe, a terminal or a device, before a byte of it is read and lost.

    What is not there passes, and so does a folder: whoever opens them says so.

    Raises:
        RequestError: as above.

    Example:
        >>> check_regular("no/such/file")
    """
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise RequestError(
            f"{os.fspath(path)!r} is no regular file but a pipe or a device, and would be read more than once; write "
            "its content to a file first"
        )
