"""One `ParamSpec` per parameter: the single description that everything else about parameters is read from.

Initialisation, the decay mask, the buckets, sharding rules and checkpoint checks all derive from these trees.
Nothing here imports jax, so counting parameters is quick.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from jaxgpt.config import ModelConfig, RequestError

INIT_STD = 0.02  # GPT-2's standard deviation for matrices and embeddings


class Init(NamedTuple):
    """Independent normal draws; a standard deviation of 0 gives the constant `mean`."""

    mean: float
    std: float


class ParamSpec(NamedTuple):
    """What is known of one parameter before it has a value.

    Attributes:
        shape: Sizes of the axes.
        axes: Letters of the axes (the dimensions of the whole house: V, T, C, H, D, F).
        init: How it starts.
        decay: Whether weight decay applies: matrices and embeddings yes, biases and norms no.
    """

    shape: tuple[int, ...]
    axes: str
    init: Init
    decay: bool

    @property
    def size(self) -> int:
        """Number of scalars."""
        return math.prod(self.shape)


SpecTree = Mapping[str, Any]  # str -> ParamSpec | SpecTree


def _sizes(config: ModelConfig) -> dict[str, int]:
    if config.vocab_size is None:
        raise RequestError(
            "model.vocab_size is not set: take it from the tokenizer, "
            "e.g. config.replace(vocab_size=tokenizer.vocab_size)"
        )
    return {
        "V": config.vocab_size,
        "T": config.context_length,
        "C": config.width,
        "H": config.heads,
        "D": config.head_size,
        "F": config.hidden_width,
    }


def _weight(config: ModelConfig, axes: str, std: float = INIT_STD) -> ParamSpec:
    sizes = _sizes(config)
    return ParamSpec(tuple(sizes[axis] for axis in axes), axes, Init(0.0, std), decay=True)


def _vector(config: ModelConfig, axes: str, mean: float) -> ParamSpec:
    sizes = _sizes(config)
    return ParamSpec(tuple(sizes[axis] for axis in axes), axes, Init(mean, 0.0), decay=False)


def _projection(config: ModelConfig, inputs: str, outputs: str, *, bias: bool, std: float = INIT_STD) -> SpecTree:
    kernel = {"kernel": _weight(config, inputs + outputs, std)}
    return kernel | ({"bias": _vector(config, outputs, 0.0)} if bias else {})


def residual_std(config: ModelConfig) -> float:
    """Return the standard deviation of the two projections that write to the residual stream.

    The stream sums 2 L updates; dividing by sqrt(2 L) keeps its variance independent of depth (GPT-2, section 2.3).
    """
    return INIT_STD / math.sqrt(2 * config.layers)


def norm_specs(config: ModelConfig) -> SpecTree:
    """Return the specs of one layer norm."""
    scale = {"scale": _vector(config, "C", 1.0)}
    return scale | ({"bias": _vector(config, "C", 0.0)} if config.norm_bias else {})


def attention_specs(config: ModelConfig) -> SpecTree:
    """Return the specs of one multi-head attention."""
    inputs = {name: _projection(config, "C", "HD", bias=config.attention_bias) for name in ("q", "k", "v")}
    out = _projection(config, "HD", "C", bias=config.attention_out_bias, std=residual_std(config))
    return inputs | {"out": out}


def ffn_specs(config: ModelConfig) -> SpecTree:
    """Return the specs of one feed-forward network."""
    return {
        "up": _projection(config, "C", "F", bias=config.ffn_bias),
        "down": _projection(config, "F", "C", bias=config.ffn_bias, std=residual_std(config)),
    }


def block_specs(config: ModelConfig) -> SpecTree:
    """Return the specs of one Transformer block."""
    return {
        "ln1": norm_specs(config),
        "attention": attention_specs(config),
        "ln2": norm_specs(config),
        "ffn": ffn_specs(config),
    }


def embedding_specs(config: ModelConfig) -> SpecTree:
    """Return the specs of the tables that turn ids and positions into vectors."""
    tables = {"token_embedding": _weight(config, "VC")}
    return tables | ({"position_embedding": _weight(config, "TC")} if config.position == "learned" else {})


def head_specs(config: ModelConfig) -> SpecTree:
    """Return the specs of the vocabulary head; a tied head without bias has none."""
    kernel = {} if config.tied_head else {"kernel": _weight(config, "CV")}
    return kernel | ({"bias": _vector(config, "V", 0.0)} if config.head_bias else {})


def parameter_specs(config: ModelConfig) -> SpecTree:
    """Return the spec of every parameter, as a tree of the shape that the parameters have.

    Example:
        >>> specs = parameter_specs(ModelConfig.preset("gpt2"))
        >>> specs["blocks_0"]["attention"]["q"]["kernel"].shape
        (768, 12, 64)
    """
    blocks = {f"blocks_{i}": block_specs(config) for i in range(config.layers)}
    head = head_specs(config)
    return embedding_specs(config) | blocks | {"final_norm": norm_specs(config)} | ({"lm_head": head} if head else {})


def walk(specs: SpecTree, prefix: str = "") -> Iterator[tuple[str, ParamSpec]]:
    """Yield (path, spec) of every leaf, paths written `blocks_0/ln1/scale`."""
    for name, entry in specs.items():
        if isinstance(entry, ParamSpec):
            yield prefix + name, entry
        else:
            yield from walk(entry, f"{prefix}{name}/")
