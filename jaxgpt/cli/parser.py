"""argparse with errors as `RequestError` and the nearest option for an unknown one.

argparse and not a library that builds on it: it starts in milliseconds, so `--help` and a mistake are answered at
once.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from jaxgpt.config import RequestError, nearest


def whole_number(text: str) -> int:
    """Read an option's value, for `add_argument(type=...)`."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got '{text}'") from None


def number(text: str) -> float:
    """Read an option's value, for `add_argument(type=...)`."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, got '{text}'") from None


def seed(text: str) -> int:
    """Read the seed of a PRNG key: 32 bits, since JAX silently drops what is above them."""
    value = whole_number(text)
    if not 0 <= value < 2**32:
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 to {2**32 - 1}, got {value}")
    return value


class Parser(argparse.ArgumentParser):
    """An argument parser that never guesses: no abbreviations, one message per mistake."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print and exit with."""
        if message.endswith("expected one argument"):
            option = message.removeprefix("argument ").split(":")[0]
            message = f"{option}: expected a value; one that begins with a dash is written {option}=VALUE"
        raise RequestError(f"{message} (see {self.prog} --help)")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End after `--help`, with its text written out, so that `main` sees it if that fails."""
        sys.stdout.flush()
        super().exit(status, message)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse what is not among an option's choices, with the nearest one."""
        if action.choices is not None and value not in action.choices:
            listed = ", ".join(action.choices)
            raise argparse.ArgumentError(
                action, f"unknown choice '{value}'{nearest(value, action.choices)} ({listed})"
            )

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
