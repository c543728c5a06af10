"""Files are read more than once, first to see what they hold: what gives other bytes then is refused or noticed."""

from __future__ import annotations

import os
from typing import NamedTuple, Self

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


class Stamp(NamedTuple):
    """By what it is told cheaply whether a mapped file was written to; one that was replaced or deleted was not.

    Attributes:
        path: Where the file lies.
        place: Its device and its number there.
        state: Its size in bytes, and when it was last written to, in nanoseconds.
    """

    path: str
    place: tuple[int, int]
    state: tuple[int, int]

    @classmethod
    def of(cls, path: str) -> Self:
        """Return the stamp of a file.

        Raises:
            OSError: it cannot be looked at.

        Example:
            >>> Stamp.of(".").has_changed()
            False
        """
        found = os.stat(path)
        return cls(path, (found.st_dev, found.st_ino), (found.st_size, found.st_mtime_ns))

    def has_changed(self) -> bool:
        """Return whether the file was written to since."""
        try:
            now = Stamp.of(self.path)
        except OSError:
            return False
        return now.place == self.place and now.state != self.state
