"""What the commands that read a model share: the checkpoint and the tokenizer that a command line names."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Literal

from jaxgpt.config import ModelConfig, blamed_on, nearest

from .parser import Parser

if TYPE_CHECKING:
    from jaxgpt.data.tokenizer import Tokenizer

TOKENIZER_HELP = (
    "the tokenizer's file or folder, or bytes or gpt2, for a model that comes without one (default: the model's)"
)


def add_checkpoint_option(parser: Parser) -> None:
    """Add the option that names the checkpoint of a run."""
    parser.add_argument(
        "--checkpoint",
        metavar="WHICH",
        type=_checkpoint,
        default="last",
        help="which one of a run: last, best (lowest validation loss), or its step (default: last)",
    )


def _checkpoint(text: str) -> Literal["last", "best"] | int:
    if text in ("last", "best"):
        return text
    if text.isdecimal() and text.isascii():
        return int(text)
    raise argparse.ArgumentTypeError(f"expected last, best or a step, got '{text}'{nearest(text, ('last', 'best'))}")


def tokenizer_for(config: ModelConfig, own: Tokenizer | None, named: str | None) -> Tokenizer | None:
    """Return the tokenizer that a command uses: the model's own, or the one named for a model without.

    Args:
        config: The model.
        own: The tokenizer that it came with, None where it came without.
        named: What the command line names, None where it names none.

    Raises:
        RequestError: what is named is no tokenizer, differs from the model's own, or has more ids than the model.
    """
    if named is None:
        return own
    from jaxgpt.data.objectives import OBJECTIVES
    from jaxgpt.data.tokenizer import choose_tokenizer
    from jaxgpt.runs.manifest import check_vocabulary

    roles = OBJECTIVES[config.family].roles
    tokenizer = choose_tokenizer(named, None, roles=roles, trained=own, owner="the model", option="--tokenizer")
    with blamed_on("--tokenizer"):
        check_vocabulary(config.vocab_size, tokenizer.vocab_size)
    return tokenizer
