"""`jaxgpt generate`: continue a prompt, fill in masks or write targets, as the model's family does."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from jaxgpt.config import RequestError, warn

from ..models import tokenizer_for
from .asked import Asked, asked_in_file, asked_on_command_line
from .options import parse, settle

if TYPE_CHECKING:
    from jaxgpt.data.tokenizer import Tokenizer
    from jaxgpt.interop.opening import Opened

    from .clock import Clock


def main(arguments: list[str]) -> int:
    """Run the sub-command."""
    started = time.perf_counter()
    options = parse(arguments)
    from_file = None if options.prompts is None else asked_in_file(options.prompts)

    from ..compile_cache import keep_compiled_programs
    from .clock import Clock

    keep_compiled_programs()
    clock = Clock(started)
    with clock.listening():
        model, tokenizer = _open(options)
        settle(options, model.config.family)
        asked = asked_on_command_line(options) if from_file is None else from_file
        _answer(options, asked, model, tokenizer, clock)
    if not options.quiet:
        print("\n".join(clock.lines()), file=sys.stderr)
    return 0


def _open(options: argparse.Namespace) -> tuple[Opened, Tokenizer]:
    from jaxgpt.interop.opening import open_model

    model = open_model(options.run, warn, checkpoint=options.checkpoint)
    tokenizer = tokenizer_for(model.config, model.tokenizer, options.tokenizer)
    if tokenizer is None:
        raise RequestError(
            f"{options.run} holds no tokenizer; name its file or folder with --tokenizer, or use jaxgpt.generate "
            "with ids from Python"
        )
    return model, tokenizer


def _answer(
    options: argparse.Namespace, asked: list[Asked], model: Opened, tokenizer: Tokenizer, clock: Clock
) -> None:
    from .families import decoder_task, encoder_decoder_task
    from .work import continue_all, fill_all

    if model.config.family == "encoder":
        fill_all(options, asked, model, tokenizer, clock)
    else:
        make_task = decoder_task if model.config.family == "decoder" else encoder_decoder_task
        continue_all(options, make_task(options, asked, model.config, tokenizer), model, tokenizer, clock)
