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
        f"D = {config.head_size}  F = {config.hidden_width:,}  L = {config.layers}"
    )
    lines = [sizes, "", _row("bucket", "formula", "per block", "total", "share")]
    for bucket in count.buckets:
        per_block = "" if bucket.per_block is None else f"{bucket.per_block:,}"
        share = f"{bucket.total / count.total:.1%}".replace("%", " %")
        name = bucket.name.replace("blocks/", f"{config.layers} x ")
        lines.append(_row(name, bucket.formula, per_block, f"{bucket.total:,}", share))
    return [*lines, _row("total", "", "", f"{count.total:,}", "100.0 %")]


def _row(name: str, formula: str, per_block: str, total: str, share: str) -> str:
    return f"{name:<19}{formula:<22}{per_block:>10}{total:>15}{share:>10}".rstrip()


def quoted_lines(config: ModelConfig) -> list[str]:
    """Return the other numbers that are quoted for the same model, each with what it counts."""
    return [f"{number.count:>15,}  {number.reason}" for number in quoted_numbers(config)]
