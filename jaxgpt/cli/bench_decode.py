"""`jaxgpt bench decode`: how fast generation is, held against reading its bytes and nothing else."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from jaxgpt.config import ModelConfig, RequestError, WorkError, nearest, preset_names, some, warn

from .bench_output import add_output_options, check_new_file, say, show
from .models import add_checkpoint_option
from .parser import Parser, seed, whole_number

if TYPE_CHECKING:
    from jaxgpt.benchmark.decode.workload import Model, Workload

_CHARACTERS = 65  # token ids of a preset that leaves them to the tokenizer: as many as tiny Shakespeare has

_DESCRIPTION = """Time the steps of generation: a token more in each row.

Every token is first held against a pass over the whole text without a cache; a contestant with a wrong one is not
timed, and the exit code is then 1. Those that are right take turns with a program that reads the same bytes and does
nothing else.
"""


def main(arguments: list[str]) -> int:
    """Run the sub-command.

    Raises:
        RequestError: an unknown option or model, sizes that do not fit, peers that are not installed, a record that
            could not be written.
        WorkError: tokens that were wrong, after the printing.
    """
    options = _parse(arguments)
    _check(options)
    from jaxgpt.benchmark.decode.report import lines
    from jaxgpt.benchmark.decode.results import as_record
    from jaxgpt.benchmark.decode.run import run_benchmark

    model = _model(options)
    workloads = _workloads(options, model.config)
    results = run_benchmark(model, workloads, peers=options.peers, rounds=options.rounds, say=say)
    command = shlex.join(["jaxgpt", "bench", "decode", *arguments])
    show(as_record(results, command), lines(results), options)
    if results.wrong:
        raise WorkError(f"{len(results.wrong)} wrong results, not timed: {some(results.wrong, joint='; ')}")
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(prog="jaxgpt bench decode", description=_DESCRIPTION)
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        default="char-cpu",
        help=f"a preset, with random parameters ({', '.join(preset_names())}); or a run directory, a Hugging Face "
        "folder or a llama2.c file (default: char-cpu)",
    )
    add_checkpoint_option(parser)
    parser.add_argument(
        "--vocab-size",
        type=whole_number,
        help=f"number of token ids of a preset (default: the preset's, or {_CHARACTERS} where it has none)",
    )
    parser.add_argument(
        "--batch", metavar="ROWS", type=whole_number, nargs="+", default=[1], help="rows at a time (default: 1)"
    )
    parser.add_argument("--prompt-length", type=whole_number, default=16, help="tokens of each prompt (default: 16)")
    parser.add_argument("--new-tokens", type=whole_number, default=48, help="tokens to append (default: 48)")
    parser.add_argument("--rounds", type=whole_number, default=10, help="turns that everyone gets (default: 10)")
    parser.add_argument("--seed", type=seed, default=0, help="of prompts and random parameters (default: 0)")
    parser.add_argument(
        "--peers", action="store_true", help="transformers takes part, on the same weights (default: it does not)"
    )
    add_output_options(parser)
    return parser.parse(arguments)


def _check(options: argparse.Namespace) -> None:
    """Refuse before the work what would fail in it or after it."""
    if options.rounds < 1:
        raise RequestError(f"--rounds: expected at least 1, got {options.rounds}")
    check_new_file("record", options.record)
    if options.model not in preset_names():
        _check_path(options)
    elif options.checkpoint != "last":
        raise RequestError(f"--checkpoint is for runs; {options.model} is a preset, leave it out")
    if options.peers:
        from jaxgpt.benchmark.decode.peer import check_peers

        check_peers()


def _check_path(options: argparse.Namespace) -> None:
    """Refuse what names neither a preset nor anything that is there."""
    if options.vocab_size is not None:
        raise RequestError(f"--vocab-size is for presets; {options.model} says its own, leave it out")
    if not Path(options.model).exists():
        near = nearest(options.model, preset_names())
        raise RequestError(f"unknown model '{options.model}'{near}: neither a preset nor a path that is there")


def _model(options: argparse.Namespace) -> Model:
    from jaxgpt.benchmark.decode.workload import Model

    if options.model in preset_names():
        return _random_model(options)
    from jaxgpt.interop.opening import open_model

    opened = open_model(options.model, warn, checkpoint=options.checkpoint)
    return Model(Path(options.model).name, opened.words(opened.tokenizer), opened.config, opened.params)


def _random_model(options: argparse.Namespace) -> Model:
    from jaxgpt.benchmark.decode.workload import Model
    from jaxgpt.model.buckets import count_parameters
    from jaxgpt.model.parameters import init
    from jaxgpt.ops.keys import random_key

    config = ModelConfig.preset(options.model)
    vocab_size = (config.vocab_size or _CHARACTERS) if options.vocab_size is None else options.vocab_size
    config = config.replace(vocab_size=vocab_size)
    _workloads(options, config)  # refuses what does not fit, before parameters are drawn
    words = f"{count_parameters(config).total:,} random parameters, {config.vocab_size:,} token ids"
    return Model(options.model, words, config, init(config, key=random_key(options.seed)))


def _workloads(options: argparse.Namespace, config: ModelConfig) -> list[Workload]:
    from jaxgpt.benchmark.decode.workload import Workload

    sizes = (options.prompt_length, options.new_tokens, options.seed)
    return [Workload(config, batch, *sizes) for batch in dict.fromkeys(options.batch)]
