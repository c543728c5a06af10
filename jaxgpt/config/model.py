"""`ModelConfig`: the architecture. It travels with the weights and is hashed with them."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal, Self

from .errors import RequestError
from .section import Section, option

# {field: (the field it depends on, the values of that field under which it means something)}
MEANS_SOMETHING_WITH: dict[str, tuple[str, tuple[Any, ...]]] = {
    "encoder_layers": ("family", ("encoder_decoder",)),
    "gelu": ("ffn", ("gelu", "geglu")),
    "rope_theta": ("position", ("rope",)),
    "rope_pairing": ("position", ("rope",)),
    "rope_scaling": ("position", ("rope",)),
    "rope_factor": ("rope_scaling", ("linear", "llama3", "yarn")),
    "rope_original_context": ("rope_scaling", ("llama3", "yarn")),
    "rope_low_rotations": ("rope_scaling", ("llama3", "yarn")),
    "rope_high_rotations": ("rope_scaling", ("llama3", "yarn")),
    "rope_attention_factor": ("rope_scaling", ("yarn",)),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig(Section):
    """The architecture of a Transformer; every field changes shapes or the traced computation, or is refused.

    Example:
        >>> config = ModelConfig(vocab_size=65, context_length=64, width=128, layers=4, heads=4)
        >>> config.head_width, config.hidden_width
        (32, 512)

    Raises:
        RequestError: a field of the wrong type or out of bounds, heads that do not fit the width or each other, or
            a field that would mean nothing beside the others.
    """

    section: ClassVar[str] = "model"

    family: Literal["decoder", "encoder", "encoder_decoder"] = option(
        "decoder", "A GPT, a bidirectional encoder, or both with cross-attention."
    )
    vocab_size: int | None = option(None, "Number of token ids V; none takes it from the tokenizer.", at_least=1)
    context_length: int = option(64, "Longest sequence the model reads, in tokens (T).", at_least=1)
    width: int = option(128, "Model width C: features per position.", at_least=1)
    layers: int = option(4, "Number of Transformer blocks L.", at_least=1)
    encoder_layers: int | None = option(
        None, "Blocks of the encoder in an encoder_decoder; none means as many as layers.", at_least=1
    )
    heads: int = option(4, "Number of query heads H.", at_least=1)
    kv_heads: int | None = option(
        None, "Number of key and value heads K, a divisor of the heads; none means as many.", at_least=1
    )
    head_size: int | None = option(None, "Features per head D; none means width / heads.", at_least=1)
    ffn: Literal["gelu", "relu", "swiglu", "geglu"] = option(
        "gelu", "Feed-forward network: an activation between two matrices, or gated by a third (swiglu, geglu)."
    )
    ffn_width: int | None = option(
        None, "Hidden features F of the feed-forward network; none means 4 x width.", at_least=1
    )
    gelu: Literal["exact", "tanh"] = option(
        "exact", "GELU by the error function (exact), or by GPT-2's tanh formula (tanh)."
    )
    norm: Literal["layernorm", "rmsnorm"] = option(
        "layernorm", "Norm of each position: by mean and variance, or by the root of the mean square alone."
    )
    norm_epsilon: float = option(1e-5, "Added inside the root of each norm.", above=0)
    position: Literal["learned", "rope", "sinusoidal", "none"] = option(
        "learned", "Positions: a learned table, rotated queries and keys (rope), a fixed table of sines, or none."
    )
    rope_theta: float = option(10000.0, "Base of the rotary wavelengths.", above=1)
    rope_pairing: Literal["half", "interleaved"] = option(
        "half", "Which features rope rotates together: i and i + D/2 (half), or 2i and 2i + 1 (interleaved)."
    )
    rope_scaling: Literal["linear", "llama3", "yarn"] | None = option(
        None, "How rope is stretched over a longer context than it was trained on."
    )
    rope_factor: float = option(1.0, "How many times longer the stretched context is.", at_least=1)
    rope_original_context: int | None = option(
        None, "Context length before stretching, for llama3 and yarn.", at_least=1
    )
    rope_low_rotations: float = option(
        1.0, "Features that turn fewer times than this over the original context are stretched in full.", above=0
    )
    rope_high_rotations: float | None = option(
        None, "Features that turn more often than this are left alone; none means 4 for llama3, 32 for yarn.", above=0
    )
    rope_attention_factor: float | None = option(
        None, "Factor of rotated queries and keys under yarn; none means 0.1 ln(rope_factor) + 1.", above=0
    )
    window: int | None = option(
        None, "Self-attention sees only keys less than this many positions away; none sees all.", at_least=1
    )
    qk_norm: bool = option(False, "RMS norm of the queries and the keys of each head, with a scale.")
    attention_bias: bool = option(True, "Biases in the query, key and value projections.")
    attention_out_bias: bool = option(True, "A bias in the attention's output projection.")
    ffn_bias: bool = option(True, "Biases in the feed-forward projections.")
    norm_bias: bool = option(True, "A bias (beta) beside the scale (gamma) in every norm.")
    head_bias: bool = option(False, "A bias in the vocabulary head.")
    tied_head: bool = option(True, "The head scores with the token embedding itself instead of its own matrix.")
    logit_soft_cap: float | None = option(
        None, "Squash the logits into +-cap, as cap x tanh(logits / cap); none leaves them.", above=0
    )
    embedding_dropout: float = option(
        0.0, "Dropout probability on the summed embeddings, in training.", at_least=0, below=1
    )
    attention_dropout: float = option(
        0.0, "Dropout probability on the attention weights, in training.", at_least=0, below=1
    )
    residual_dropout: float = option(
        0.0, "Dropout probability on each update before its residual addition, in training.",
        at_least=0, below=1,
    )  # fmt: skip

    def check(self) -> None:
        self._check_meanings()
        if self.head_size is None and self.width % self.heads:
            raise RequestError(_width_message(self.width, self.heads))
        if self.heads % self.key_value_heads:
            raise RequestError(
                f"model.heads {self.heads} is not divisible by model.kv_heads {self.kv_heads}; each key and value "
                "head serves the same number of query heads: use a divisor, or none"
            )
        self._check_rope()

    def _check_meanings(self) -> None:
        """Refuse a field that was set and would mean nothing."""
        for field in dataclasses.fields(self):
            if field.name not in MEANS_SOMETHING_WITH or getattr(self, field.name) == field.default:
                continue
            owner, values = MEANS_SOMETHING_WITH[field.name]
            if getattr(self, owner) not in values:
                raise RequestError(
                    f"model.{field.name} {getattr(self, field.name)} means nothing with model.{owner} "
                    f"{_word(getattr(self, owner))}; set model.{owner} to {' or '.join(values)}, or leave "
                    f"model.{field.name} at {_word(field.default)}"
                )

    def _check_rope(self) -> None:
        if self.position == "rope" and self.head_width % 2:
            raise RequestError(
                f"rope rotates pairs of features, but each head has {self.head_width}; make model.head_size even"
            )
        if self.rope_scaling is not None and self.rope_factor == 1:
            raise RequestError(
                f"model.rope_scaling {self.rope_scaling} with model.rope_factor 1 stretches nothing; set the factor, "
                "or model.rope_scaling to none"
            )
        if self.rope_scaling in ("llama3", "yarn"):
            if self.rope_original_context is None:
                raise RequestError(
                    f"model.rope_scaling {self.rope_scaling} needs model.rope_original_context, the context length "
                    "before stretching; set it"
                )
            low, high = self.rope_low_rotations, self.rotations_left_alone
            if low >= high:
                raise RequestError(
                    f"model.rope_low_rotations {low:g} is not below model.rope_high_rotations {high:g}; lower the "
                    "first or raise the second"
                )

    @property
    def key_value_heads(self) -> int:
        """Number of key and value heads, K."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def head_width(self) -> int:
        """Features per head, D."""
        return self.width // self.heads if self.head_size is None else self.head_size

    @property
    def hidden_width(self) -> int:
        """Hidden features of the feed-forward network, F."""
        return 4 * self.width if self.ffn_width is None else self.ffn_width

    @property
    def is_gated(self) -> bool:
        """Whether the feed-forward network has a gate."""
        return self.ffn in ("swiglu", "geglu")

    @property
    def blocks_in_encoder(self) -> int:
        """Blocks of an encoder_decoder's encoder."""
        return self.layers if self.encoder_layers is None else self.encoder_layers

    @property
    def rotations_left_alone(self) -> float:
        """Rotations over the original context from which a feature is not stretched."""
        default = 4.0 if self.rope_scaling == "llama3" else 32.0
        return default if self.rope_high_rotations is None else self.rope_high_rotations

    @property
    def has_dropout(self) -> bool:
        """Whether any dropout probability is above zero."""
        return max(self.embedding_dropout, self.attention_dropout, self.residual_dropout) > 0

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """Return the architecture of a preset, with some fields changed.

        Example:
            >>> ModelConfig.preset("gpt2").layers
            12
            >>> ModelConfig.preset("char-cpu", vocab_size=65).vocab_size
            65
        """
        from .presets import load_preset

        return load_preset(name).model.replace(**changes)


def _word(value: Any) -> str:
    return str(value).lower() if value in (None, True, False) else str(value)


def _width_message(width: int, heads: int) -> str:
    """Say which heads, and which widths, would fit."""
    below = next(h for h in range(min(heads, width), 0, -1) if width % h == 0)
    above = next((h for h in range(heads, width + 1) if width % h == 0), width)
    narrower = width // heads * heads
    widths = [w for w in (narrower, narrower + heads) if w]
    return (
        f"model.width {width} is not divisible by model.heads {heads}; "
        f"use {' or '.join(str(h) for h in sorted({below, above}))} heads, "
        f"width {' or '.join(map(str, widths))}, or a model.head_size of its own"
    )
