"""The two kinds of failure a user meets; each carries the exit code the command line ends with."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class JaxgptError(Exception):
    """Base of the errors whose message alone is meant for the user (no traceback needed)."""

    exit_code = 1


class RequestError(JaxgptError, ValueError):
    """The request was wrong: the message says what was got, what was expected and what to change."""

    exit_code = 2


class WorkError(JaxgptError, RuntimeError):
    """The request was right but the work failed: a non-finite loss, no usable checkpoint, a full disk."""

    exit_code = 1


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the closest of `known`, or an empty string.

    >>> nearest("heds", ["heads", "width"])
    "; did you mean 'heads'?"
    """
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""
