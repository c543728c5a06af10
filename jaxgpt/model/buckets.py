"""Counting parameters bucket by bucket, from the specs; every figure is computed, none typed in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from jaxgpt.config import ModelConfig

from .specs import ParamSpec, parameter_specs, walk


class Bucket(NamedTuple):
    """Parameters that are counted together.

    Attributes:
        name: Where they live in the tree; `blocks` stands for every block.
        formula: Their number in the dimensions' letters, for one block where they are repeated.
        per_block: That number, or None for a bucket outside the blocks.
        blocks: How many blocks have them, or None.
        total: Their number in the whole model.
    """

    name: str
    formula: str
    per_block: int | None
    blocks: int | None
    total: int


class ParameterCount(NamedTuple):
    """Buckets that sum to the total."""

    buckets: tuple[Bucket, ...]
    total: int


_BLOCK = re.compile(r"blocks_(\d+)/(\w+)")


def _bucket_name(path: str) -> str:
    """`blocks_3/attention/q/kernel` -> `blocks/attention`; `final_norm/scale` -> `final_norm`."""
    *stack, name = path.split("/")[:2] if path.startswith("encoder/") else path.split("/")[:1]
    block = _BLOCK.search(path)
    return "/".join([*stack, f"blocks/{block[2]}" if block else name])


def _formula(config: ModelConfig, specs: Iterable[ParamSpec]) -> str:
    """Write the sizes as a sum of products of the axes' letters, equal products gathered."""
    letters = {"K": "H"} if config.key_value_heads == config.heads else {}
    products = Counter("·".join(sorted(letters.get(axis, axis) for axis in spec.axes)) for spec in specs)
    return " + ".join(f"{n}·{product}" if n > 1 else product for product, n in products.items())


def count_parameters(config: ModelConfig) -> ParameterCount:
    """Return the parameter buckets of an architecture, and their sum.

    Example:
        >>> count_parameters(ModelConfig.preset("gpt2")).total
        124439808
    """
    grouped: dict[str, list[tuple[str, ParamSpec]]] = {}
    for path, spec in walk(parameter_specs(config)):
        grouped.setdefault(_bucket_name(path), []).append((path, spec))
    buckets = tuple(_bucket(config, name, members) for name, members in grouped.items())
    return ParameterCount(buckets, sum(bucket.total for bucket in buckets))


def _bucket(config: ModelConfig, name: str, members: list[tuple[str, ParamSpec]]) -> Bucket:
    total = sum(spec.size for _, spec in members)
    numbers = {found[1] for path, _ in members if (found := _BLOCK.search(path))}
    if not numbers:
        return Bucket(name, _formula(config, (spec for _, spec in members)), None, None, total)
    first = [spec for path, spec in members if "blocks_0/" in path]
    return Bucket(name, _formula(config, first), total // len(numbers), len(numbers), total)


class QuotedNumber(NamedTuple):
    """Another number that people give for the same model, and what it leaves out or adds."""

    count: int
    reason: str


def _decayed(config: ModelConfig) -> int:
    return sum(spec.size for _, spec in walk(parameter_specs(config)) if spec.decay)


def _outside_tables(config: ModelConfig) -> int:
    tables = ("token_embedding", "position_embedding", "lm_head")
    return sum(bucket.total for bucket in count_parameters(config).buckets if not bucket.name.endswith(tables))


def _in_blocks(config: ModelConfig) -> int:
    return sum(bucket.total for bucket in count_parameters(config).buckets if bucket.per_block is not None)


def _mask_buffers(config: ModelConfig, own: int) -> tuple[QuotedNumber, ...]:
    if config.family != "decoder":
        return ()
    mask = f"{config.context_length} x {config.context_length}"
    reason = f"a file that also stores the {config.layers} causal masks, {mask}, as tensors"
    return (QuotedNumber(own + config.layers * config.context_length**2, reason),)


def quoted_numbers(config: ModelConfig) -> tuple[QuotedNumber, ...]:
    """Return the other counts found for this model in papers, file listings and training logs.

    A count that equals the model's own (such as "no biases" of a model without) is left out.

    Example:
        >>> [number.count for number in quoted_numbers(ModelConfig.preset("gpt2"))][:2]
        [124337664, 123653376]
    """
    own = count_parameters(config).total
    padded = -(-config.vocab_size // 64) * 64
    no_biases = config.replace(
        attention_bias=False, attention_out_bias=False, ffn_bias=False, norm_bias=False, head_bias=False
    )
    no_position = config.replace(position="none") if config.position == "learned" else config
    numbers = (
        QuotedNumber(count_parameters(no_biases).total, "without biases (matrices, embeddings, norm scales)"),
        QuotedNumber(count_parameters(no_position).total, "without the position table, as speed reports count (6N)"),
        QuotedNumber(
            count_parameters(config.replace(vocab_size=padded)).total,
            f"vocabulary padded from {config.vocab_size:,} to {padded:,}, the next multiple of 64",
        ),
        QuotedNumber(
            count_parameters(config.replace(tied_head=not config.tied_head)).total,
            "with a head of its own (untied)" if config.tied_head else "with the head tied to the embedding",
        ),
        *_mask_buffers(config, own),
        QuotedNumber(_decayed(config), "matrices and embeddings only: what weight decay applies to"),
        QuotedNumber(_outside_tables(config), "without embeddings and head, as scaling-law papers count"),
        QuotedNumber(_in_blocks(config), "the blocks alone"),
    )
    return tuple(number for number in numbers if number.count != own)
