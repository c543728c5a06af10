"""`jaxgpt train`: train a GPT, or continue a run."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
from pathlib import Path
from typing import Any

from jaxgpt.config import RequestError, RunConfig, apply_settings, blamed_on, compose, flatten, warn

from .parser import Parser
from .settings import Layers, add_setting_options, add_source_options, given_settings, source_layers

_DESCRIPTION = """Train a GPT on a text and leave a run directory behind.

Without options it trains the quickstart preset on the built-in corpus, in about a minute on a CPU.
With --out on an existing run directory it continues that run.
"""


def main(arguments: list[str]) -> int:
    """Run the sub-command."""
    options = _parse(arguments)
    if options.out == "":
        raise RequestError("--out is empty; name a folder")
    out = None if options.out is None else Path(options.out)
    config, origins = _requested(options, out)

    from jaxgpt.sharding.cpu import arrange_cpu_devices

    arrange_cpu_devices(config.train.batch_size // config.train.accumulate, config.mesh.data)

    from jaxgpt.training.run import train

    from .compile_cache import keep_compiled_programs

    keep_compiled_programs()  # a run that is continued, however often, is compiled once
    train(config, out=out, origins=origins, command=shlex.join(["jaxgpt", "train", *arguments]))
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    """Parse twice: the preset named first decides which defaults `--help` shows."""
    source = Parser(prog="jaxgpt train", add_help=False)
    add_source_options(source)
    named, _ = source.parse_known_args(arguments)
    defaults = flatten(RunConfig())
    for _, settings in source_layers(named.preset, named.config):
        defaults |= settings  # not composed: the command line may complete a file that is not valid by itself

    parser = Parser(prog="jaxgpt train", description=_DESCRIPTION)
    add_source_options(parser)
    parser.add_argument(
        "--out", metavar="DIR", help="the run directory; an existing run is continued (default: a new one in runs/)"
    )
    add_setting_options(parser, defaults)
    return parser.parse(arguments)


def _requested(options: argparse.Namespace, out: Path | None) -> tuple[RunConfig, dict[str, str]]:
    """Return the config a command line asks for, and where each setting came from.

    On an existing run the stored config is the base, under whatever is named explicitly.
    """
    given = given_settings(vars(options))
    manifest_config = _stored_config(out)
    if manifest_config is None:
        layers = _new_run_layers(options, given)
        return compose([*layers, ("command line", given)])
    config = manifest_config
    if options.preset is not None or options.config is not None:
        for origin, settings in source_layers(options.preset, options.config):
            config = apply_settings(config, settings, origin)
    return apply_settings(config, given, "command line"), {}


def _stored_config(out: Path | None) -> RunConfig | None:
    if out is None:
        return None
    from jaxgpt.runs.directory import RunDirectory, is_run

    if not is_run(out):
        return None
    config = RunDirectory.open(out).manifest.config
    return dataclasses.replace(config, train=config.train.replace(stop_after=None))  # a pause is not for ever


def _new_run_layers(options: argparse.Namespace, given: dict[str, Any]) -> Layers:
    """Fine-tuning takes architecture and tokenizer of its model, over the preset's but under the file's."""
    layers = source_layers(options.preset, options.config)
    source = (layers[-1][1] | given).get("train.init_from")
    if isinstance(source, str):
        from jaxgpt.interop.opening import open_config, open_tokenizer

        with blamed_on("train.init_from"):
            model = dataclasses.asdict(open_config(source, warn))
            has_tokenizer = open_tokenizer(source, _say_nothing) is not None
        settings = {f"model.{name}": value for name, value in model.items()}
        if has_tokenizer:
            settings["data.tokenizer"] = None
        layers.insert(len(layers) - (options.config is not None), (f"model {source}", settings))
    return layers


def _say_nothing(message: str) -> None:
    """Leave a warning to the run itself, which reads the tokenizer again."""
