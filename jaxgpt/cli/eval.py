"""`jaxgpt eval`: measure a trained model on a text."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxgpt.config import RequestError, RunConfig, blamed_on, warn

from .models import TOKENIZER_HELP, add_checkpoint_option, tokenizer_for
from .parser import Parser, number, whole_number

if TYPE_CHECKING:
    from jaxgpt.data import Tokenizer
    from jaxgpt.data.source import Part, Source
    from jaxgpt.interop.opening import Opened
    from jaxgpt.runs.manifest import Manifest
    from jaxgpt.training.evaluate_text import Evaluation, Measured

_DESCRIPTION = """Measure a trained model on a text: nats per token, perplexity, bits per byte, with standard errors.

A decoder predicts each token of the text once, in windows of its context; nothing is put before the text. An encoder
predicts the tokens that are hidden from it, an encoder_decoder the targets of source TAB target lines, each with its
end, which is a token without a byte.
"""


def main(arguments: list[str]) -> int:
    """Run the sub-command."""
    options = _parse(arguments)

    from jaxgpt.interop.opening import open_model
    from jaxgpt.runs.directory import RunDirectory, is_run
    from jaxgpt.sharding.cpu import arrange_cpu_devices, cores
    from jaxgpt.training.evaluate_text import evaluate_text

    arrange_cpu_devices(cores())
    path = Path(options.model)
    opened = open_model(path, warn, checkpoint=options.checkpoint)
    manifest = RunDirectory.open(path).manifest if is_run(path) else None
    tokenizer = _tokenizer(options, opened)
    source, part = _source(options, manifest, tokenizer)
    config = _config(options, opened, manifest)
    result = evaluate_text(
        config,
        opened.params,
        source,
        tokenizer,
        part=part,
        stride=options.stride,
        batch_size=options.batch_size,
    )
    trained_share = _trained_share(manifest, source)
    if options.json:
        fields = {"model": opened.words(tokenizer), "step": opened.step, "text": source.identity}
        print(json.dumps(fields | _as_json(result, config, options.split, part, trained_share), ensure_ascii=False))
    else:
        print(f"model: {opened.words(tokenizer)}")
        print(f"text:  {_text_words(source, config, part, trained_share)}")
        print("\n".join(_lines(result)))
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(prog="jaxgpt eval", description=_DESCRIPTION)
    parser.add_argument("model", metavar="MODEL", help="a run directory, a Hugging Face folder or a llama2.c file")
    parser.add_argument(
        "--data",
        metavar="FILE",
        help="a UTF-8 text, a token file, or a .bin of nanoGPT or llm.c (default: what the run was trained on)",
    )
    parser.add_argument(
        "--format",
        choices=("auto", "text", "uint16", "uint32"),
        default="auto",
        help="what a file without a header holds, as data.format says it for training (default: auto)",
    )
    add_checkpoint_option(parser)
    parser.add_argument(
        "--split",
        choices=("all", "train", "val"),
        default="all",
        help="all of the text, or what training would train or validate on (default: all)",
    )
    parser.add_argument(
        "--validation-fraction",
        metavar="SHARE",
        type=number,
        help="share of the characters (or pairs), from the end, that is val (default: the run's, else 0.1)",
    )
    parser.add_argument(
        "--stride",
        metavar="N",
        type=whole_number,
        help="tokens from one window to the next; fewer give each token more to look back on (default: "
        "the context, windows side by side)",
    )
    parser.add_argument(
        "--batch-size",
        metavar="N",
        type=whole_number,
        help="windows computed at once, which does not change the result (default: what makes 4096 tokens)",
    )
    parser.add_argument("--tokenizer", metavar="PATH", help=TOKENIZER_HELP)
    parser.add_argument("--json", action="store_true", help="print the same as one JSON object (default: lines)")
    options = parser.parse(arguments)
    if options.validation_fraction is not None and options.split == "all":
        raise RequestError(
            "--validation-fraction means nothing for all of the text; add --split val or --split train"
        )
    if options.format != "auto" and options.data is None:
        raise RequestError(f"--format {options.format} means nothing without --data FILE; leave it out")
    return options


def _tokenizer(options: argparse.Namespace, opened: Opened) -> Tokenizer:
    tokenizer = tokenizer_for(opened.config, opened.tokenizer, options.tokenizer)
    if tokenizer is None:
        raise RequestError(f"{options.model} holds no tokenizer; name the one it was trained with: --tokenizer PATH")
    return tokenizer


def _source(options: argparse.Namespace, manifest: Manifest | None, tokenizer: Tokenizer) -> tuple[Source, Part]:
    """Return the data that is named, or the run's own, found where its manifest says and known by its hash; checked.

    Also which part of it: of a run's file for validation all.
    """
    from jaxgpt.data.sources import check_format, check_tokenizer, open_source

    if options.data is not None:
        source = open_source(options.data, "--data", form=options.format)
        check_format(options.format, [source], "--format")
        if source.tokenizer is None and source.kind != "text" and options.tokenizer is None:
            raise RequestError(
                f"--data {options.data} holds {source.kind} and nothing says which tokenizer they were written with; "
                "name it with --tokenizer, and it is compared with the model's"
            )
        if source.tokenizer is not None:
            check_tokenizer(tokenizer, source, tuple(tokenizer.special_ids), "the model")
        return source.checked(tokenizer, warn), options.split
    if manifest is None or not manifest.data:
        raise RequestError(f"{options.model} comes without a text; name one with --data FILE")
    with blamed_on("the run's own text (--data FILE names another)"):
        return _own_source(options.split, manifest, tokenizer)


def _own_source(split: Part, manifest: Manifest, tokenizer: Tokenizer) -> tuple[Source, Part]:
    from jaxgpt.data.corpus import check_same_corpus
    from jaxgpt.data.objectives import OBJECTIVES
    from jaxgpt.data.sources import open_source, recorded_identities

    data, held_out = manifest.config.data, split == "val" and manifest.config.data.validation_path is not None
    if len(data.paths) > 1 and not held_out:
        raise RequestError(f"it was trained on {len(data.paths)} files; name one of them")
    path, name = (data.validation_path, "data.validation_path") if held_out else (data.paths[0], "data.path")
    built_in = OBJECTIVES[manifest.config.model.family].built_in
    source = open_source(path, name, form=data.format, built_in=built_in).checked(tokenizer, warn)
    identity = recorded_identities(manifest.data)[-1 if held_out else 0]
    check_same_corpus(identity, source, option="--data", otherwise="evaluate on another text")
    return source, "all" if data.validation_path is not None else split


def _config(options: argparse.Namespace, opened: Opened, manifest: Manifest | None) -> RunConfig:
    config = manifest.config if manifest else RunConfig(model=opened.config, execution=opened.execution)
    if options.validation_fraction is None:
        return config
    named = {} if options.data is None else {"validation_path": None}  # another text is cut, whatever the run's was
    with blamed_on("--validation-fraction"):
        data = config.data.replace(validation_fraction=options.validation_fraction, **named)
        return dataclasses.replace(config, data=data)


def _trained_share(manifest: Manifest | None, source: Source) -> float | None:
    """Return which share of the text, from its beginning, a run was trained on; None of another text."""
    from jaxgpt.data.sources import recorded_identities

    if manifest is None or not manifest.data:
        return None
    data, hashes = manifest.config.data, [identity["sha256"] for identity in recorded_identities(manifest.data)]
    if source.identity["sha256"] in hashes[: len(data.paths)]:
        return 1 if data.validation_path is not None else 1 - data.validation_fraction
    return 0 if source.identity["sha256"] in hashes else None


def _text_words(source: Source, config: RunConfig, split: str, trained_share: float | None) -> str:
    from jaxgpt.data.sources import source_words

    validation = config.data.validation_fraction
    part = {
        "all": "all of it",
        "train": f"the first {1 - validation:.4g} of it",
        "val": f"the last {validation:.4g} of it",
    }
    was = {None: "", 0: " (the run was not trained on it)", 1: " (the run was trained on all of it)"}
    trained = was.get(trained_share, f" (the run was trained on the first {trained_share or 0:.4g} of it)")
    return f"{source_words(source)}, sha256 {source.identity['sha256'][:12]}; {part[split]}{trained}"


def _quantities(result: Evaluation) -> dict[str, Measured | None]:
    quantities = {
        "nats/token": result.nats_per_token,
        "perplexity": result.perplexity,
        "bits/byte": result.bits_per_byte,
    }
    return quantities | ({} if result.exact_match is None else {"exact match": result.exact_match})


def _lines(result: Evaluation) -> list[str]:
    read_bytes = _NO_BYTES if result.bytes is None else f"{result.bytes:,} bytes of UTF-8"
    return [
        f"read:  {result.description}",
        f"count: {result.tokens:,} tokens, {read_bytes}",
        *(f"{name:<12}{_words(measured)}" for name, measured in _quantities(result).items()),
        f"± is the standard error, from the spread between the {result.unit}, taken as independent",
    ]


_NO_BYTES = "bytes n/a: ids of this tokenizer do not tell how many they stand for"


def _words(measured: Measured | None) -> str:
    if measured is None:
        return "n/a"
    error = measured.standard_error
    return f"{measured.value:.6g} ± {'unknown' if math.isnan(error) else f'{error:.2g}'}"


def _as_json(
    result: Evaluation, config: RunConfig, split: str, part: str, trained_share: float | None
) -> dict[str, Any]:
    quantities = {
        name.replace("/", "_per_").replace(" ", "_"): measured
        and {field: value if math.isfinite(value) else None for field, value in measured._asdict().items()}
        for name, measured in _quantities(result).items()
    }
    return {
        "split": split,
        # Of a run with a file for validation, its files are not cut.
        "validation_fraction": config.data.validation_fraction if part == split else None,
        "trained_share": trained_share,
        "context": config.model.context_length,
        "stride": result.stride,
        result.unit: result.rows,
        "tokens": result.tokens,
        "left_over": result.left_over,
        "bytes": result.bytes,
        **quantities,
    }
