"""`jaxgpt params`: count a model's parameters bucket by bucket."""

from __future__ import annotations

import json

from jaxgpt.config import ModelConfig, RequestError, preset_names
from jaxgpt.model.buckets import count_parameters, quoted_numbers

from .parser import Parser, whole_number


def main(arguments: list[str]) -> int:
    """Run the sub-command."""
    parser = Parser(prog="jaxgpt params", description="Count a model's parameters bucket by bucket.")
    parser.add_argument("preset", metavar="PRESET", help=f"one of {', '.join(preset_names())}")
    parser.add_argument(
        "--vocab-size",
        type=whole_number,
        help="number of token ids, needed where a preset leaves it to the tokenizer (default: the preset's)",
    )
    parser.add_argument("--json", action="store_true", help="print the same as JSON (default: a table)")
    options = parser.parse(arguments)
    config = _architecture(options.preset, options.vocab_size)
    print(_as_json(config) if options.json else _as_text(options.preset, config))
    return 0


def _architecture(preset: str, vocab_size: int | None) -> ModelConfig:
    config = ModelConfig.preset(preset)
    if config.vocab_size is None and vocab_size is None:
        raise RequestError(f"preset {preset} takes its vocabulary from the text; name its size with --vocab-size")
    return config if vocab_size is None else config.replace(vocab_size=vocab_size)


def _as_text(preset: str, config: ModelConfig) -> str:
    from jaxgpt.model.bucket_table import bucket_lines, quoted_lines

    return "\n".join(
        [preset, *bucket_lines(config), "", "other numbers quoted for this model:", *quoted_lines(config)]
    )


def _as_json(config: ModelConfig) -> str:
    count = count_parameters(config)
    buckets = [bucket._asdict() | {"share": bucket.total / count.total} for bucket in count.buckets]
    quoted = [number._asdict() for number in quoted_numbers(config)]
    return json.dumps({"total": count.total, "buckets": buckets, "quoted": quoted}, indent=2)
