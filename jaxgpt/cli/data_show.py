"""`jaxgpt data show`: what a token file says about itself."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from .parser import Parser

if TYPE_CHECKING:
    from jaxgpt.data import TokenFile

_FIRST = 32  # ids whose text is shown


def main(arguments: list[str]) -> int:
    """Run the sub-command.

    Raises:
        RequestError: an unknown option, no token file, or one that is damaged.
        StoppedError: a signal asked to stop the check.
    """
    options = _parse(arguments)
    from jaxgpt.data import TokenFile

    tokens = TokenFile.open(options.file)
    if options.check:
        _check(tokens)
    facts = _facts(tokens, checked=options.check)
    print(json.dumps(facts, indent=2) if options.json else _table(facts))
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="jaxgpt data show",
        description="Print what a token file says about its ids, and the text of the first ones.",
    )
    parser.add_argument("file", metavar="FILE", help="a token file")
    parser.add_argument(
        "--check",
        action="store_true",
        help="read all ids: each is in the vocabulary, and their hash is the header's (default: only the header and "
        "the length are checked)",
    )
    parser.add_argument("--json", action="store_true", help="print the same as JSON (default: as a table)")
    return parser.parse(arguments)


def _check(tokens: TokenFile) -> None:
    from jaxgpt.training.stop import watch_for_stop

    from .data_progress import Progress

    itemsize = tokens.ids_N.itemsize
    with watch_for_stop() as stop, Progress(stop, f"jaxgpt data show {tokens.path} --check") as progress:
        tokens.check(lambda count: progress("checking ids", count * itemsize, tokens.ids_N.nbytes))


def _facts(tokens: TokenFile, *, checked: bool) -> dict[str, Any]:
    header = tokens.header
    return {
        "path": str(tokens.path),
        "tokens": header.count,
        "dtype": header.dtype,
        "vocabulary": header.vocab_size,
        "documents": header.documents,
        "end token": header.end_id,
        "source": header.source,
        "tokenizer": f"{header.tokenizer['kind']}, hash {header.tokenizer_hash}",
        "sha256 of ids": header.sha256,
        "begins with": tokens.tokenizer.decode(tokens.ids_N[:_FIRST]),
        "ids": "in the vocabulary, and as the hash says" if checked else "not checked (--check reads them all)",
    }


def _table(facts: dict[str, Any]) -> str:
    return "\n".join(f"{name:<15}{_shown(name, value)}" for name, value in facts.items())


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "none" if name == "end token" else "not known"
    if name == "begins with":
        return repr(value)
    return f"{value:,}" if isinstance(value, int) and name != "end token" else str(value)
