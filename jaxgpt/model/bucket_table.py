"""The parameter buckets as plain text."""

from __future__ import annotations

from jaxgpt.config import ModelConfig

from .buckets import count_parameters, quoted_numbers


def bucket_lines(config: ModelConfig) -> list[str]:
    """Return the table of buckets: formula, per block, total, share, and the sum.

    Example:
        >>> print(bucket_lines(ModelConfig.preset("minigpt"))[-1])
        total                                                          541   100.0 %
    """
    count = count_parameters(config)
    sizes = (
        f"V = {config.vocab_size:,}  T = {config.context_length:,}  C = {config.width:,}  H = {config.heads}  "
        f"{_key_heads(config)}D = {config.head_width}  F = {config.hidden_width:,}  L = {_layers(config)}"
    )
    rows = [("bucket", "formula", "per block", "total", "share")]
    for bucket in count.buckets:
        per_block = "" if bucket.per_block is None else f"{bucket.per_block:,}"
        share = f"{bucket.total / count.total:.1%}".replace("%", " %")
        name = bucket.name.replace("blocks/", f"{bucket.blocks} x ")
        rows.append((name, bucket.formula, per_block, f"{bucket.total:,}", share))
    rows.append(("total", "", "", f"{count.total:,}", "100.0 %"))
    return [sizes, "", *_aligned(rows)]


def _layers(config: ModelConfig) -> str:
    encoder = f" + {config.blocks_in_encoder} in the encoder" if config.family == "encoder_decoder" else ""
    return f"{config.layers}{encoder}"


def _key_heads(config: ModelConfig) -> str:
    return "" if config.key_value_heads == config.heads else f"K = {config.key_value_heads}  "


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Names and formulas to the left, numbers to the right, in columns at least as wide as GPT-2's."""
    names, formulas = (max(least, *(len(row[i]) + 1 for row in rows)) for i, least in ((0, 19), (1, 22)))
    return [f"{a:<{names}}{b:<{formulas}}{c:>10}{d:>15}{e:>10}".rstrip() for a, b, c, d, e in rows]


def quoted_lines(config: ModelConfig) -> list[str]:
    """Return the other numbers that are quoted for the same model, each with what it counts."""
    return [f"{number.count:>15,}  {number.reason}" for number in quoted_numbers(config)]
