"""What is generated, and how many bytes a step of it has to read."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jaxgpt.config import ModelConfig, RequestError
from jaxgpt.model.parameters import Params
from jaxgpt.model.specs import parameter_specs, walk

_FLOAT32 = 4  # bytes

CONVENTION = (
    "a step makes one token in each row, from the second on; the first one includes reading the prompt. A step\n"
    "reads every parameter once, but for tables of which it looks up rows, and keys and values of what it sees"
)


@dataclasses.dataclass(frozen=True)
class Model:
    """A model and where it came from, in words."""

    name: str
    source: str
    config: ModelConfig
    params: Params


@dataclasses.dataclass(frozen=True)
class Workload:
    """So many new tokens behind so many prompts of so many tokens, greedy, in float32.

    Attributes:
        config: Of a decoder.
        B, P, N: Rows, tokens of each prompt, new tokens of each row.
        seed: Of the prompts.

    Raises:
        RequestError: a model that does not continue text, sizes below the least, or more than the context holds.
    """

    config: ModelConfig
    B: int
    P: int
    N: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.config.family != "decoder":
            raise RequestError(f"expected a decoder, got a model of family {self.config.family}; name another model")
        for option, size, least in (("batch", self.B, 1), ("prompt-length", self.P, 1), ("new-tokens", self.N, 2)):
            if size < least:
                raise RequestError(f"--{option}: expected at least {least}, got {size}")
        total, context = self.P + self.N, self.config.context_length
        if total > context:
            raise RequestError(
                f"--prompt-length {self.P} and --new-tokens {self.N} are {total} tokens, above the context of "
                f"{context}; ask for fewer"
            )

    @property
    def steps(self) -> int:
        """How many steps follow the first token."""
        return self.N - 1

    @property
    def name(self) -> str:
        """As the table calls it: B1, 16 + 32 tokens."""
        return f"B{self.B}, {self.P} + {self.N} tokens"

    def prompts(self) -> list[list[int]]:
        """Return ids drawn evenly, [B,P]."""
        return self._ids(self.P, 0).tolist()

    def text(self) -> np.ndarray:
        """Return the prompts with ids behind them that no model chose, [B,P+N]."""
        return np.concatenate([self._ids(self.P, 0), self._ids(self.N, 1)], axis=1)

    def _ids(self, length: int, stream: int) -> np.ndarray:
        return np.random.default_rng([self.seed, stream]).integers(0, self.config.vocab_size, (self.B, length))

    @property
    def weight_bytes(self) -> int:
        """Bytes of parameters that a step reads, whatever the number of rows."""
        tables = {"position_embedding"} | (set() if self.config.tied_head else {"token_embedding"})
        sizes = (spec.size for path, spec in walk(parameter_specs(self.config)) if path not in tables)
        return _FLOAT32 * sum(sizes)

    @property
    def cache_bytes(self) -> float:
        """Bytes of keys and values that a step reads, as the mean over the steps, all rows together."""
        config = self.config
        seen = [min(self.P + step, config.window or self.P + step) for step in range(1, self.N)]
        per_token = 2 * config.layers * config.key_value_heads * config.head_width * _FLOAT32
        return self.B * per_token * sum(seen) / len(seen)

    @property
    def step_bytes(self) -> float:
        """Bytes that a step has to read."""
        return self.weight_bytes + self.cache_bytes

    def as_record(self) -> dict[str, Any]:
        """Return the sizes in JSON's types."""
        sizes = {"B": self.B, "prompt_length": self.P, "new_tokens": self.N, "seed": self.seed, "dtype": "float32"}
        return sizes | {"weight_bytes": self.weight_bytes, "mean_cache_bytes": self.cache_bytes}
