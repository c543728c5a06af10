"""A Rich console for plain pages, which leaves it to its caller what a reader that left means."""

from __future__ import annotations

from typing import Any

import rich.console


class PlainConsole(rich.console.Console):
    """A console on standard output that prints text as it is.

    Where the reader of a pipe has left, Rich would end the process with code 1; here the caller gets BrokenPipeError.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def on_broken_pipe(self) -> None:
        """Pass on the BrokenPipeError that Rich is handling."""
        raise
