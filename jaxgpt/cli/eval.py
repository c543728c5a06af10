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
    from jaxgpt.data import Corpus, Tokenizer
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
    tokenizer, corpus = _tokenizer(options, opened), _text(options, manifest)
    config = _config(options, opened, manifest)
    result = evaluate_text(
        config,
        opened.params,
        corpus,
        tokenizer,
        part=options.split,
        stride=options.stride,
        batch_size=options.batch_size,
    )
    trained_share = _trained_share(manifest, corpus)
    if options.json:
        fields = {"model": opened.words(tokenizer), "step": opened.step, "text": corpus.identity}
        print(json.dumps(fields | _as_json(result, config, options.split, trained_share), ensure_ascii=False))
    else:
        print(f"model: {opened.words(tokenizer)}")
        print(f"text:  {_text_words(corpus, config, options.split, trained_share)}")
        print("\n".join(_lines(result)))
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(prog="jaxgpt eval", description=_DESCRIPTION)
    parser.add_argument("model", metavar="MODEL", help="a run directory, a Hugging Face folder or a llama2.c file")
    add_checkpoint_option(parser)
    parser.add_argument("--data", metavar="FILE", help="a UTF-8 text (default: the text that the run was trained on)")
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
    return options


def _tokenizer(options: argparse.Namespace, opened: Opened) -> Tokenizer:
    tokenizer = tokenizer_for(opened.config, opened.tokenizer, options.tokenizer)
    if tokenizer is None:
        raise RequestError(f"{options.model} holds no tokenizer; name the one it was trained with: --tokenizer PATH")
    return tokenizer


def _text(options: argparse.Namespace, manifest: Manifest | None) -> Corpus:
    """Return the text that is named, or the run's own: found where its manifest says, and known by its hash."""
    from jaxgpt.data.corpus import check_same_corpus, load_corpus
    from jaxgpt.data.objectives import OBJECTIVES

    if options.data is not None:
        return load_corpus(options.data, "--data")
    if manifest is None or not manifest.data:
        raise RequestError(f"{options.model} comes without a text; name one with --data FILE")
    config = manifest.config
    with blamed_on("the run's own text (--data FILE names another)"):
        corpus = load_corpus(config.data.path, built_in=OBJECTIVES[config.model.family].built_in)
        check_same_corpus(manifest.data, corpus, option="--data", otherwise="evaluate on another text")
    return corpus


def _config(options: argparse.Namespace, opened: Opened, manifest: Manifest | None) -> RunConfig:
    config = manifest.config if manifest else RunConfig(model=opened.config, execution=opened.execution)
    if options.validation_fraction is None:
        return config
    with blamed_on("--validation-fraction"):
        return dataclasses.replace(config, data=config.data.replace(validation_fraction=options.validation_fraction))


def _trained_share(manifest: Manifest | None, corpus: Corpus) -> float | None:
    """Return which share of the text, from its beginning, a run was trained on; None of another text."""
    if manifest is None or manifest.data.get("sha256") != corpus.sha256:
        return None
    return 1 - manifest.config.data.validation_fraction


def _text_words(corpus: Corpus, config: RunConfig, split: str, trained_share: float | None) -> str:
    validation = config.data.validation_fraction
    part = {
        "all": "all of it",
        "train": f"the first {1 - validation:.4g} of it",
        "val": f"the last {validation:.4g} of it",
    }
    trained = "" if trained_share is None else f" (the run was trained on the first {trained_share:.4g} of it)"
    return f"{corpus.source}, {len(corpus.text):,} characters, sha256 {corpus.sha256[:12]}; {part[split]}{trained}"


def _quantities(result: Evaluation) -> dict[str, Measured]:
    quantities = {
        "nats/token": result.nats_per_token,
        "perplexity": result.perplexity,
        "bits/byte": result.bits_per_byte,
    }
    return quantities | ({} if result.exact_match is None else {"exact match": result.exact_match})


def _lines(result: Evaluation) -> list[str]:
    return [
        f"read:  {result.description}",
        f"count: {result.tokens:,} tokens, {result.bytes:,} bytes of UTF-8",
        *(f"{name:<12}{_words(measured)}" for name, measured in _quantities(result).items()),
        f"± is the standard error, from the spread between the {result.unit}, taken as independent",
    ]


def _words(measured: Measured) -> str:
    error = measured.standard_error
    return f"{measured.value:.6g} ± {'unknown' if math.isnan(error) else f'{error:.2g}'}"


def _as_json(result: Evaluation, config: RunConfig, split: str, trained_share: float | None) -> dict[str, Any]:
    quantities = {
        name.replace("/", "_per_").replace(" ", "_"): {
            field: value if math.isfinite(value) else None for field, value in measured._asdict().items()
        }
        for name, measured in _quantities(result).items()
    }
    return {
        "split": split,
        "validation_fraction": config.data.validation_fraction,
        "trained_share": trained_share,
        "context": config.model.context_length,
        "stride": result.stride,
        result.unit: result.rows,
        "tokens": result.tokens,
        "left_over": result.left_over,
        "bytes": result.bytes,
        **quantities,
    }
