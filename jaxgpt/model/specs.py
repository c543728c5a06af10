"""One `ParamSpec` per parameter: the single description that everything else about parameters is read from.

Initialisation, the decay mask, the buckets, sharding rules and checkpoint checks all derive from these trees.
Nothing here imports jax, so counting parameters is quick.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

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
        axes: Letters of the axes (the dimensions of the whole house: V, T, C, H, K, D, F).
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
Stack = Literal["main", "encoder"]  # the blocks at the top of the tree, and those of an encoder_decoder's encoder


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
        "K": config.key_value_heads,
        "D": config.head_width,
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


def has_cross_attention(config: ModelConfig, stack: Stack) -> bool:
    """Return whether the blocks of a stack look at an encoder's output."""
    return config.family == "encoder_decoder" and stack == "main"


def residual_std(config: ModelConfig, stack: Stack = "main") -> float:
    """Return the standard deviation of the projections that write to the residual stream.

    The stream of L blocks sums 2 L updates (3 L with cross-attention); dividing by the root of their number keeps its
    variance independent of depth (GPT-2, section 2.3).
    """
    layers = config.layers if stack == "main" else config.blocks_in_encoder
    updates = 3 if has_cross_attention(config, stack) else 2
    return INIT_STD / math.sqrt(updates * layers)


def norm_specs(config: ModelConfig) -> SpecTree:
    """Return the specs of one norm."""
    scale = {"scale": _vector(config, "C", 1.0)}
    return scale | ({"bias": _vector(config, "C", 0.0)} if config.norm_bias else {})


def attention_specs(config: ModelConfig, stack: Stack = "main") -> SpecTree:
    """Return the specs of one multi-head attention."""
    heads = {"q": "HD", "k": "KD", "v": "KD"}
    inputs = {name: _projection(config, "C", axes, bias=config.attention_bias) for name, axes in heads.items()}
    std = residual_std(config, stack)
    out = {"out": _projection(config, "HD", "C", bias=config.attention_out_bias, std=std)}
    norms = {name: {"scale": _vector(config, "D", 1.0)} for name in ("q_norm", "k_norm")} if config.qk_norm else {}
    return inputs | norms | out


def ffn_specs(config: ModelConfig, stack: Stack = "main") -> SpecTree:
    """Return the specs of one feed-forward network."""
    inputs = ("up", "gate") if config.is_gated else ("up",)
    std = residual_std(config, stack)
    return {name: _projection(config, "C", "F", bias=config.ffn_bias) for name in inputs} | {
        "down": _projection(config, "F", "C", bias=config.ffn_bias, std=std)
    }


def block_specs(config: ModelConfig, stack: Stack = "main") -> SpecTree:
    """Return the specs of one Transformer block."""
    cross = {"ln_cross": norm_specs(config), "cross_attention": attention_specs(config, stack)}
    return (
        {"ln1": norm_specs(config), "attention": attention_specs(config, stack)}
        | (cross if has_cross_attention(config, stack) else {})
        | {"ln2": norm_specs(config), "ffn": ffn_specs(config, stack)}
    )


def position_specs(config: ModelConfig) -> SpecTree:
    """Return the specs of the learned positions, if there are any."""
    return {"position_embedding": _weight(config, "TC")} if config.position == "learned" else {}


def embedding_specs(config: ModelConfig) -> SpecTree:
    """Return the specs of the tables that turn ids and positions into vectors."""
    return {"token_embedding": _weight(config, "VC")} | position_specs(config)


def head_specs(config: ModelConfig) -> SpecTree:
    """Return the specs of the vocabulary head; a tied head without bias has none."""
    kernel = {} if config.tied_head else {"kernel": _weight(config, "CV")}
    return kernel | ({"bias": _vector(config, "V", 0.0)} if config.head_bias else {})


def encoder_specs(config: ModelConfig) -> SpecTree:
    """Return the specs of an encoder_decoder's encoder; it reads the same token embedding as the decoder."""
    blocks = {f"blocks_{i}": block_specs(config, "encoder") for i in range(config.blocks_in_encoder)}
    return position_specs(config) | blocks | {"final_norm": norm_specs(config)}


def parameter_specs(config: ModelConfig) -> SpecTree:
    """Return the spec of every parameter, as a tree of the shape that the parameters have.

    Example:
        >>> specs = parameter_specs(ModelConfig.preset("gpt2"))
        >>> specs["blocks_0"]["attention"]["q"]["kernel"].shape
        (768, 12, 64)
    """
    encoder = {"encoder": encoder_specs(config)} if config.family == "encoder_decoder" else {}
    blocks = {f"blocks_{i}": block_specs(config) for i in range(config.layers)}
    head = {"lm_head": head_specs(config)} if head_specs(config) else {}
    return embedding_specs(config) | encoder | blocks | {"final_norm": norm_specs(config)} | head


def walk(specs: SpecTree, prefix: str = "") -> Iterator[tuple[str, ParamSpec]]:
    """Yield (path, spec) of every leaf, paths written `blocks_0/ln1/scale`."""
    for name, entry in specs.items():
        if isinstance(entry, ParamSpec):
            yield prefix + name, entry
        else:
            yield from walk(entry, f"{prefix}{name}/")
