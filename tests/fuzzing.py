"""What the fuzz tests share: how many examples each tier has, ways to spoil bytes, and an end to what hangs.

A surface is sound if whatever is put into it comes out as it was, or is refused with one message. Everything else
fails here: another exception (a traceback for the user), a hang, and values that are not those that were written.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

FEW = 50
SURFACES = 6
MANY = int(os.environ.get("JAXGPT_FUZZ_EXAMPLES", "2000")) // SURFACES  # bench/endurance.py sets it
SECONDS = 20  # that one example may take

# A test with this mark gets few examples in the ordinary tier and many in that of CI.
fuzzed = pytest.mark.parametrize(
    "examples", [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.ci)]
)

# What is done to bytes: the kind, where (a share of their length), and bytes to put there.
Change = tuple[str, float, bytes]
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["flip", "set", "insert", "delete", "repeat", "cut"]),
        st.floats(0, 1, exclude_max=True),
        st.binary(min_size=1, max_size=4) | st.sampled_from([b"0", b"9", b'"', b",", b"\x00", b"\xff", b"1e9"]),
    ),
    min_size=1,
    max_size=3,
)


def fuzz(examples: int, check: Callable[..., None], *strategies: st.SearchStrategy[Any]) -> None:
    """Call `check` with drawn arguments; the smallest ones that it fails with are reported."""
    everything = settings(
        max_examples=examples, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck)
    )

    @everything
    @given(st.tuples(*strategies))
    def each(arguments: tuple[Any, ...]) -> None:
        with time_limit():
            check(*arguments)

    each()


def spoilt(data: bytes, changes: list[Change], *, begin: int = 0, end: int | None = None) -> bytes:
    """Return `data` with the changes made one after the other, each at a place between `begin` and `end`."""
    changed, rest = data[:end], data[len(data) if end is None else end :]
    for kind, share, some in changes:
        place = begin + int(share * (len(changed) - begin))
        here = changed[place : place + len(some)]
        head, tail = changed[:place], changed[place + len(here) :]
        if kind == "cut":
            return head
        middle = {
            "flip": bytes(byte ^ 1 << some[0] % 8 for byte in here[:1]) + here[1:],
            "set": some[: len(here)],
            "insert": some + here,
            "delete": b"",
            "repeat": here + here,
        }[kind]
        changed = head + middle + tail
    return changed + rest


@contextlib.contextmanager
def time_limit() -> Iterator[None]:
    """Raise in whatever takes longer than an example may."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"an example takes longer than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def one_message(error: Exception) -> None:
    """Assert that an error is a message for the user: one line, of some words."""
    assert "\n" not in str(error)
    assert len(str(error).split()) > 3
