"""What the benchmarks' commands share: where their results go, and what is said meanwhile."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from jaxgpt.config import RequestError

from .parser import Parser


def add_output_options(parser: Parser) -> None:
    """Add the options that `show` reads."""
    parser.add_argument("--json", action="store_true", help="print the record on stdout (default: a table)")
    parser.add_argument("--record", metavar="FILE", type=Path, help="also write the record there (default: none)")


def check_new_file(option: str, path: Path | None) -> None:
    """Refuse before the work a file that could not be written after it; None is no file."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        raise RequestError(f"--{option} {path}: expected the name of a file in a folder that is there")


def say(message: str) -> None:
    """Show on a terminal what is going on, on one line, apart from the results; "" clears it."""
    if sys.stderr.isatty():
        print(f"\r\033[K{message}", end="", file=sys.stderr, flush=True)


def show(record: dict[str, Any], lines: list[str], options: argparse.Namespace) -> None:
    """Print the table, or the record where `options` ask for it, and write it where they name a file."""
    from jaxgpt.runs.files import write_atomically

    text = json.dumps(record, indent=2)
    say("")
    print(text if options.json else "\n".join(lines))
    if options.record is not None:
        write_atomically(options.record, text + "\n")
