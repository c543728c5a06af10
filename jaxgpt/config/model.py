"""`ModelConfig`: the architecture. It travels with the weights and is hashed with them."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal, Self

from .errors import RequestError
from .section import Section, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig(Section):
    """The architecture of a decoder-only GPT; every field changes shapes or the traced computation.

    Example:
        >>> config = ModelConfig(vocab_size=65, context_length=64, width=128, layers=4, heads=4)
        >>> config.head_size, config.hidden_width
        (32, 512)

    Raises:
        RequestError: a field of the wrong type or out of bounds, or a width that the heads do not divide.
    """

    section: ClassVar[str] = "model"

    vocab_size: int | None = option(None, "Number of token ids V; none takes it from the tokenizer.", at_least=1)
    context_length: int = option(64, "Longest sequence the model reads, in tokens (T).", at_least=1)
    width: int = option(128, "Model width C: features per position.", at_least=1)
    layers: int = option(4, "Number of Transformer blocks L.", at_least=1)
    heads: int = option(4, "Number of attention heads H; they must divide the width.", at_least=1)
    ffn_width: int | None = option(
        None, "Hidden features F of the feed-forward network; none means 4 x width.", at_least=1
    )
    gelu: Literal["exact", "tanh"] = option(
        "exact", "GELU by the error function (exact), or by GPT-2's tanh formula (tanh)."
    )
    norm_epsilon: float = option(1e-5, "Added to the variance inside the root of each layer norm.", above=0)
    position: Literal["learned", "none"] = option(
        "learned", "Position information: a learned table [T,C] added to the tokens, or none."
    )
    attention_bias: bool = option(True, "Biases in the query, key and value projections.")
    attention_out_bias: bool = option(True, "A bias in the attention's output projection.")
    ffn_bias: bool = option(True, "Biases in both feed-forward projections.")
    norm_bias: bool = option(True, "A bias (beta) beside the scale (gamma) in every layer norm.")
    head_bias: bool = option(False, "A bias in the vocabulary head.")
    tied_head: bool = option(True, "The head scores with the token embedding itself instead of its own matrix.")
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
        if self.width % self.heads:
            divisors = [h for h in range(1, self.width + 1) if self.width % h == 0]
            below = max(h for h in divisors if h <= self.heads)
            above = min((h for h in divisors if h >= self.heads), default=self.width)
            narrower = self.width // self.heads * self.heads
            widths = [width for width in (narrower, narrower + self.heads) if width]
            raise RequestError(
                f"model.width {self.width} is not divisible by model.heads {self.heads}; "
                f"use {' or '.join(str(h) for h in sorted({below, above}))} heads, "
                f"or width {' or '.join(map(str, widths))}"
            )

    @property
    def head_size(self) -> int:
        """Features per head, D = C / H."""
        return self.width // self.heads

    @property
    def hidden_width(self) -> int:
        """Hidden features of the feed-forward network, F."""
        return 4 * self.width if self.ffn_width is None else self.ffn_width

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
