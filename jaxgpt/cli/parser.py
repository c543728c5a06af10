"""argparse with errors as `RequestError` and the nearest option for an unknown one.

argparse and not a library that builds on it: it starts in milliseconds, so `--help` and a mistake are answered at
once.
"""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from jaxgpt.config import RequestError, nearest


class Parser(argparse.ArgumentParser):
    """An argument parser that never guesses: no abbreviations, one message per mistake."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print and exit with."""
        raise RequestError(f"{message} (see {self.prog} --help)")

    def parse(self, arguments: list[str]) -> argparse.Namespace:
        """Return the parsed options.

        Raises:
            RequestError: an unknown option, with the nearest one, or a value that does not fit.
        """
        namespace, unknown = self.parse_known_args(arguments)
        if not unknown:
            return namespace
        known = [option for action in self._actions for option in action.option_strings]
        name = unknown[0].split("=")[0]
        what = "option" if name.startswith("-") else "argument"
        raise RequestError(f"unknown {what} '{name}'{nearest(name, known)} (see {self.prog} --help)")
