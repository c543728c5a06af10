"""The options of `jaxgpt generate`, and those that do not fit together."""

from __future__ import annotations

import argparse

from jaxgpt.config import RequestError

from ..models import TOKENIZER_HELP, add_checkpoint_option
from ..parser import Parser, number, seed, whole_number

MOST = 256  # new tokens, where no number is given: the contexts of many models hold a book
_DRAFT = 4  # tokens that --lookup drafts at a time, where no number is given
_BATCH = 8  # prompts generated at a time

_DESCRIPTION = """Continue a prompt, fill in masks, or write the target of a source.

One text is shown as it comes; of several each is shown when it is complete. Where the time went is said on standard
error. Compiled programs are kept in jaxgpt/compiled of the user's cache folder (XDG_CACHE_HOME, else ~/.cache), or in
JAX_COMPILATION_CACHE_DIR, so that the next call starts sooner.
"""
_MEANS_NOTHING = {
    "decoder": ("source",),
    "encoder": (
        "source", "max_new_tokens", "context_policy", "bos", "n", "min_p", "repetition_penalty", "stop", "lookup",
        "logprobs",
    ),
    "encoder_decoder": ("context_policy", "bos"),
}  # fmt: skip


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options.

    Raises:
        RequestError: an unknown one, a value that does not fit, or options that do not fit together.
    """
    parser = Parser(prog="jaxgpt generate", description=_DESCRIPTION)
    parser.add_argument("run", metavar="RUN", help="a run directory, a Hugging Face folder or a llama2.c file")
    add_checkpoint_option(parser)
    parser.add_argument("--tokenizer", metavar="PATH", help=TOKENIZER_HELP)
    _add_texts(parser)
    _add_amounts(parser)
    _add_draw(parser)
    _add_output(parser)
    options = parser.parse(arguments)
    _refuse_what_does_not_fit(options)
    return options


def _add_texts(parser: Parser) -> None:
    parser.add_argument(
        "--prompt",
        action="append",
        help="text to continue, with an encoder text with <mask> in it, with an encoder_decoder how the target "
        "begins; may be given several times (default: a line break)",
    )
    parser.add_argument(
        "--source", action="append", help="what an encoder_decoder reads; may be given several times (default: none)"
    )
    parser.add_argument(
        "--prompts",
        metavar="FILE",
        help='a file of prompts, - for standard input: each line a JSON string or an object with "prompt", with an '
        'encoder_decoder one with "source" (default: none)',
    )
    parser.add_argument(
        "--bos", action="store_true", help="begin each prompt with the tokenizer's start token (default: do not)"
    )


def _add_amounts(parser: Parser) -> None:
    parser.add_argument(
        "--max-new-tokens",
        type=whole_number,
        help=f"tokens to append, unless an end token comes sooner (default: what the context holds, with a decoder "
        f"at most {MOST})",
    )
    parser.add_argument(
        "--n",
        type=whole_number,
        help="different continuations of each prompt; the same prompt given twice has the same ones (default: 1)",
    )
    parser.add_argument(
        "--stop",
        metavar="TEXT",
        action="append",
        help="end a text before this one comes in it; may be given several times (default: none)",
    )
    parser.add_argument(
        "--context-policy",
        choices=("stop", "crop"),
        help="stop refuses to outgrow the context; crop lets the model see its last tokens only (default: stop)",
    )
    parser.add_argument(
        "--batch-size",
        metavar="N",
        type=whole_number,
        default=_BATCH,
        help=f"prompts computed at a time, which does not change the texts (default: {_BATCH})",
    )
    parser.add_argument(
        "--lookup",
        metavar="K",
        nargs="?",
        type=whole_number,
        const=_DRAFT,
        help=f"with temperature 0, guess the next K tokens from the text itself and check them in one pass; the "
        f"text is the same (unless two logits lie within rounding of each other), sooner where it repeats itself "
        f"(default: do not; K {_DRAFT})",
    )


def _add_draw(parser: Parser) -> None:
    parser.add_argument(
        "--temperature", type=number, help="0 takes the most likely token (default: 1 for a decoder, else 0)"
    )
    parser.add_argument("--top-k", type=whole_number, help="draw among the k most likely tokens (default: all)")
    parser.add_argument(
        "--top-p", type=number, help="draw among the fewest tokens that reach this probability (default: all)"
    )
    parser.add_argument(
        "--min-p",
        type=number,
        help="draw among the tokens at least this times as likely as the likeliest (default: all)",
    )
    parser.add_argument(
        "--repetition-penalty",
        type=number,
        help="above 1 makes tokens that the text has already less likely (default: 1)",
    )
    parser.add_argument("--seed", type=seed, default=0, help="seed of the draws (default: 0)")


def _add_output(parser: Parser) -> None:
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON document: step, and of each text what was asked, the text, its ids, why it stopped "
        "(default: the texts)",
    )
    parser.add_argument(
        "--jsonl", action="store_true", help="print one JSON object per text, each when complete (default: the texts)"
    )
    parser.add_argument(
        "--logprobs",
        action="store_true",
        help="with --json or --jsonl, add the log-probability of each new token in nats, before temperature and "
        "filters (default: do not)",
    )
    parser.add_argument(
        "--quiet", action="store_true", help="say nothing of speed, time and memory (default: on standard error)"
    )


def _refuse_what_does_not_fit(options: argparse.Namespace) -> None:
    if options.json and options.jsonl:
        raise RequestError("--json prints one document and --jsonl one per text; give one of them")
    if options.logprobs and not (options.json or options.jsonl):
        raise RequestError("--logprobs are printed as JSON only; add --json or --jsonl")
    if options.prompts is not None and (options.prompt is not None or options.source is not None):
        other = "--prompt" if options.prompt is not None else "--source"
        raise RequestError(f"--prompts and {other} both say what is asked; put all of it into the file")
    if options.prompts == "":
        raise RequestError("--prompts is empty; name a file, or - for standard input")
    if options.batch_size < 1:
        raise RequestError(f"--batch-size: expected at least 1, got {options.batch_size}")
    if "" in (options.stop or ()):
        raise RequestError("--stop is empty; give some text, or leave it out")


def settle(options: argparse.Namespace, family: str) -> None:
    """Give the options their family's defaults.

    Raises:
        RequestError: an option that means nothing for a model of that family, or not at its temperature.
    """
    for name in _MEANS_NOTHING[family]:
        if getattr(options, name) is not None and getattr(options, name) is not False:
            raise RequestError(
                f"--{name.replace('_', '-')} means nothing for a model of family {family}; leave it out"
            )
    if options.temperature is None:
        options.temperature = 1.0 if family == "decoder" else 0.0
    if options.temperature == 0 and (options.n or 1) > 1:
        raise RequestError(
            f"--n {options.n} at temperature 0 gives the same text {options.n} times; add a --temperature above 0"
        )
    if options.temperature > 0 and options.lookup is not None:
        raise RequestError(
            f"--lookup is for the most likely tokens, not for draws at temperature {options.temperature:g}; "
            "add --temperature 0"
        )
