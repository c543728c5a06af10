"""The two kinds of failure a user meets; each carries the exit code the command line ends with."""

from __future__ import annotations

import contextlib
import difflib
import sys
from collections.abc import Iterable, Iterator, Sequence


class JaxgptError(Exception):
    """Base of the errors whose message alone is meant for the user (no traceback needed)."""

    exit_code = 1


class RequestError(JaxgptError, ValueError):
    """The request was wrong: the message says what was got, what was expected and what to change."""

    exit_code = 2


class WorkError(JaxgptError, RuntimeError):
    """The request was right but the work failed: a non-finite loss, no usable checkpoint, a full disk."""

    exit_code = 1


@contextlib.contextmanager
def blamed_on(origin: str) -> Iterator[None]:
    """Put `origin` (a file, an option) before the message of a RequestError that the block raises.

    >>> with blamed_on("--prompt"):
    ...     raise RequestError("it is empty; give some text")
    Traceback (most recent call last):
        ...
    jaxgpt.config.errors.RequestError: --prompt: it is empty; give some text
    """
    try:
        yield
    except RequestError as error:
        raise RequestError(f"{origin}: {error}") from None


def warn(message: str) -> None:
    """Print a warning to standard error, apart from the results on standard output."""
    print(f"jaxgpt: warning: {message}", file=sys.stderr)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the closest of `known`, or an empty string.

    >>> nearest("heds", ["heads", "width"])
    "; did you mean 'heads'?"
    """
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


def some(items: Sequence[str], *, most: int = 3, joint: str = ", ") -> str:
    """Return the first `most` of `items` and the number of the others, in words; no items are `nothing`.

    >>> some(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    >>> some([])
    'nothing'
    """
    rest = f" and {len(items) - most} more" if len(items) > most else ""
    return joint.join(items[:most]) + rest or "nothing"
