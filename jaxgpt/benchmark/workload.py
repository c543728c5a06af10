"""What is computed: shapes, dtype, mask, the numbers that go in, and how much work that is."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from jaxgpt.config import ModelConfig, RequestError, nearest
from jaxgpt.model.parameters import Params, draw, map_specs, path_number
from jaxgpt.model.specs import block_specs
from jaxgpt.ops.keys import random_key

Dtype = Literal["float32", "bfloat16"]
MaskName = Literal["causal", "full"]
Pass = Literal["forward", "forward+backward"]
Subject = Literal["attention", "ffn", "block"]

CONVENTION = (
    "FLOP: 2 a multiply-add, matmuls only; attention has 2 matmuls forward and 4 backward over its pairs of query\n"
    "and key, recomputed scores not counted; GFLOP/s counts the pairs that the mask shows, (full) the whole square"
)

# So many positions of ffn and block are checked in float64, and only they have a gradient flowing in.
CHECKED_ROWS = 256


@dataclasses.dataclass(frozen=True)
class Workload:
    """One shape of self-attention, and of the block around it: width C = H D, feed-forward width F = 4 C.

    Attributes:
        B, T, H, D: Rows, positions, query heads, head size.
        K: Key heads; each serves H / K query heads.
        dtype: Of all arrays.
        mask: "causal" or "full".
        seed: Of all numbers.
    """

    B: int
    T: int
    H: int
    D: int
    K: int
    dtype: Dtype = "float32"
    mask: MaskName = "causal"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, known in (("dtype", get_args(Dtype)), ("mask", get_args(MaskName))):
            value = getattr(self, name)
            if value not in known:
                raise RequestError(
                    f"{name}: expected one of {', '.join(known)}, got '{value}'{nearest(value, known)}"
                )
        if min(self.B, self.T, self.H, self.D, self.K) < 1 or self.H % self.K:
            raise RequestError(f"shape {self.name}: expected numbers of at least 1, and K a divisor of H")

    @property
    def name(self) -> str:
        """B1 T128 H12 D64, and K where keys have fewer heads.

        >>> parse_shape("1x128x12x64x4").name
        'B1 T128 H12 D64 K4'
        """
        grouped = f" K{self.K}" if self.K != self.H else ""
        return f"B{self.B} T{self.T} H{self.H} D{self.D}{grouped}"

    @property
    def is_causal(self) -> bool:
        """Whether a query sees no later key."""
        return self.mask == "causal"

    @property
    def config(self) -> ModelConfig:
        """The architecture of the block."""
        return ModelConfig(
            vocab_size=1,
            context_length=self.T,
            width=self.H * self.D,
            layers=1,
            heads=self.H,
            kv_heads=self.K,
            head_size=self.D,
            gelu="tanh",
        )

    def pairs(self, *, full: bool) -> int:
        """Return how many pairs of query and key one head computes, all of them or those that the mask shows.

        >>> parse_shape("1x4x1x8").pairs(full=False), parse_shape("1x4x1x8").pairs(full=True)
        (10, 16)
        """
        return self.T * (self.T + 1) // 2 if self.is_causal and not full else self.T * self.T

    def flops(self, subject: Subject, passes: Pass, *, full: bool) -> int:
        """Return the floating-point operations of one run, by the `CONVENTION`.

        >>> parse_shape("1x4x1x8").flops("attention", "forward", full=True)
        512
        """
        C, tokens = self.H * self.D, self.B * self.T
        attention = 4 * self.B * self.H * self.D * self.pairs(full=full)
        ffn = 2 * 2 * tokens * C * 4 * C
        projections = 2 * tokens * C * self.D * (2 * self.H + 2 * self.K)
        forward = {"attention": attention, "ffn": ffn, "block": attention + ffn + projections}[subject]
        return forward if passes == "forward" else 3 * forward

    def least_bytes(self, subject: Subject, passes: Pass) -> int:
        """Return the bytes of every input read once and every output written once.

        >>> parse_shape("1x4x1x8").least_bytes("attention", "forward")
        512
        """
        C, F, tokens = self.H * self.D, 4 * self.H * self.D, self.B * self.T
        queries, keys = tokens * C, tokens * self.K * self.D
        ffn = 2 * C * F + F + C
        block = ffn + C * self.D * (2 * self.H + 2 * self.K) + self.D * (self.H + 2 * self.K) + 5 * C
        beside = {"attention": 2 * keys, "ffn": ffn, "block": block}[subject]
        forward = jnp.dtype(self.dtype).itemsize * (2 * queries + beside)
        return forward if passes == "forward" else 2 * forward

    def case(self, subject: Subject) -> Case:
        """Return the numbers that a subject is run on."""
        return _attention_case(self) if subject == "attention" else _block_case(self, subject)


@dataclasses.dataclass(frozen=True)
class Case:
    """What a function is run on.

    Attributes:
        arguments: Of the function: arrays, or trees of them.
        d_out: What flows back: the gradient with respect to its output.
        rows_T: Indices of the positions that the check looks at; all that d_out is not zero at.
    """

    arguments: tuple[Any, ...]
    d_out: jax.Array
    rows_T: np.ndarray


def parse_shape(text: str, **others: Any) -> Workload:
    """Read BxTxHxD, or BxTxHxDxK.

    Raises:
        RequestError: anything else.

    Example:
        >>> parse_shape("1x128x12x64").K
        12
    """
    if not re.fullmatch(r"\d+(x\d+){3,4}", text):
        raise RequestError(f"shape '{text}': expected BxTxHxD or BxTxHxDxK, such as 1x1024x12x64")
    sizes = [int(size) for size in text.split("x")]
    return Workload(*sizes, *([] if len(sizes) == 5 else [sizes[2]]), **others)


def parse_sweep(text: str) -> list[int]:
    """Read T0:T1 as lengths that double.

    Raises:
        RequestError: anything else.

    Example:
        >>> parse_sweep("64:256")
        [64, 128, 256]
    """
    if not re.fullmatch(r"\d+:\d+", text):
        raise RequestError(f"sweep '{text}': expected T0:T1, such as 64:4096")
    first, last = map(int, text.split(":"))
    if not 1 <= first <= last:
        raise RequestError(f"sweep '{text}': expected T0 of at least 1 and T1 no smaller")
    return [first << n for n in range((last // first).bit_length())]


def _random(workload: Workload, stream: int, *shape: int) -> jax.Array:
    """Return normal draws in the workload's dtype; made by NumPy, so that they are the same everywhere."""
    draws = np.random.default_rng([workload.seed, stream]).standard_normal(shape, np.float32)
    return jnp.asarray(draws, workload.dtype)


def _attention_case(workload: Workload) -> Case:
    B, T, H, D, K = workload.B, workload.T, workload.H, workload.D, workload.K
    q_BTHD, k_BTKD, v_BTKD = (_random(workload, n, B, T, heads, D) for n, heads in enumerate((H, K, K)))
    return Case((q_BTHD, k_BTKD, v_BTKD), _random(workload, 3, B, T, H, D), np.arange(T))


def _block_case(workload: Workload, subject: Subject) -> Case:
    B, T, C = workload.B, workload.T, workload.H * workload.D
    specs = block_specs(workload.config)
    params = _drawn(workload, specs if subject == "block" else specs["ffn"])
    count = min(T, CHECKED_ROWS)
    rows_T = np.sort(np.random.default_rng([workload.seed, 6]).choice(T, count, replace=False))
    chosen_T = np.zeros(T, np.float32)
    chosen_T[rows_T] = 1
    d_BTC = _random(workload, 5, B, T, C) * jnp.asarray(chosen_T, workload.dtype)[:, None]
    return Case((_random(workload, 4, B, T, C), params), d_BTC, rows_T)


def _drawn(workload: Workload, specs: Any) -> Params:
    """Return parameters at their start, with noise on biases and norms too, so that a lost one is seen."""
    key = random_key(workload.seed)

    def start(path, spec):
        noise = _random(workload, path_number(path), *spec.shape)
        value = draw(spec, jax.random.fold_in(key, path_number(path))).astype(workload.dtype)
        return value if spec.init.std else value + jnp.asarray(0.1, workload.dtype) * noise

    return map_specs(start, specs)
