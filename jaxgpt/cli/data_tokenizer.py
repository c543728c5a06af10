"""`jaxgpt data tokenizer`: learn a byte-level BPE from a text."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from jaxgpt.config import RequestError

from .parser import Parser, whole_number

if TYPE_CHECKING:
    from jaxgpt.data import Tokenizer

_DESCRIPTION = """Learn a byte-level BPE from a text and write it as a tokenizer.json.

`jaxgpt train --data.tokenizer FILE` trains with it; other programs that read tokenizer.json can use it too.
"""


def main(arguments: list[str]) -> int:
    """Run the sub-command.

    Raises:
        RequestError: an unknown option, a text that cannot be read or is too short, a file that is there already.
        WorkError: the disk refused.
    """
    options = _parse(arguments)
    out = Path(options.out)
    _check_free(out)
    from jaxgpt.data import load_corpus, train_bpe
    from jaxgpt.runs.files import write_atomically

    corpus = load_corpus(options.text, name="--text")
    tokenizer = train_bpe(corpus.text, options.vocab_size, options.special)
    write_atomically(out, tokenizer.document)
    print(_summary(out, tokenizer, corpus.text))
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="jaxgpt data tokenizer",
        description=_DESCRIPTION,
    )
    parser.add_argument("--text", metavar="FILE", required=True, help="the UTF-8 text file to learn from (required)")
    parser.add_argument(
        "--vocab-size",
        metavar="N",
        type=whole_number,
        required=True,
        help="number of ids: 256 bytes, merges, and the special tokens (required)",
    )
    parser.add_argument(
        "--out", metavar="FILE", required=True, help="the tokenizer.json to write; none is overwritten (required)"
    )
    parser.add_argument(
        "--special",
        metavar="NAME",
        action="append",
        default=[],
        help="a token that no text gives, such as <|endoftext|>, <s>, </s>, <pad> or <mask>; may be given several "
        "times, the ids follow that order (default: none)",
    )
    return parser.parse(arguments)


def _check_free(out: Path) -> None:
    """Refuse before the work what would fail after it."""
    if os.path.isdir(out):
        raise RequestError(f"--out {out} is a folder; name a file, such as {out / 'tokenizer.json'}")
    if os.path.exists(out):
        raise RequestError(f"--out {out} is there already, and nothing is overwritten; name another file or move it")
    if not os.path.isdir(out.parent):
        raise RequestError(f"--out {out}: there is no folder {out.parent}; make it, or name another file")


def _summary(out: Path, tokenizer: Tokenizer, text: str) -> str:
    tokens = len(tokenizer.encode(text))
    special = "".join(f", {role} {id}" for role, id in tokenizer.special_ids.items())
    return (
        f"{out}: {tokenizer.vocab_size:,} ids{special}\n"
        f"this text: {len(text):,} characters, {tokens:,} tokens, {len(text) / tokens:.2f} characters per token"
    )
