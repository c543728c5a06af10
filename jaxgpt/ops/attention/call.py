"""What a kernel is told: the facts of a call that stand before it runs, and how scores become weights."""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

import jax
import jax.numpy as jnp

from jaxgpt.config import RequestError, nearest

from ..taps import Tap, no_tap
from .masks import Mask

Platform = Literal["cpu", "gpu", "tpu"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """How scores become weights, for every kernel the same.

    Attributes:
        scale: Factor of the scores.
        soft_cap: Scores become soft_cap * tanh(score / soft_cap); None leaves them.
        dropout_rate: Probability of dropping a weight; active only with a key.
        dropout_key: A PRNG key, or None.
        tap: Sees `scores` and `weights`.
    """

    scale: float
    soft_cap: float | None = None
    dropout_rate: float = 0.0
    dropout_key: jax.Array | None = None
    tap: Tap = no_tap

    def scaled(self, q: jax.Array) -> tuple[jax.Array, float]:
        """Return queries with the scale in them, and the factor that their scores still want.

        It saves a pass over the scores, but 16-bit queries would be rounded once more.
        """
        return (q * self.scale, 1.0) if q.dtype == jnp.float32 else (q, self.scale)

    @property
    def drops(self) -> bool:
        """Whether weights are dropped."""
        return self.dropout_key is not None and self.dropout_rate > 0


@dataclasses.dataclass(frozen=True)
class Call:
    """The facts of a call by which kernels are chosen or refused; all are known before anything runs.

    Attributes:
        platform: What the program is compiled for.
        B, T, S, H, K, D: Rows, queries, keys, query heads, key heads, head size.
        dtype: Of queries, keys and values.
        mask: Its parts; the values in its arrays are never looked at.
        settings: Scale, soft cap, dropout, tap.
        divided: Whether the mesh in place gives each device rows or heads of its own.
        explicit: Whether it has an axis of the Explicit type, along which programs must say how arrays are divided.
    """

    platform: Platform
    B: int
    T: int
    S: int
    H: int
    K: int
    D: int
    dtype: str
    mask: Mask
    settings: Settings
    divided: bool
    explicit: bool

    @property
    def decodes(self) -> bool:
        """Whether a few new queries look at a long past."""
        return self.T <= 8 and self.S >= 4 * self.T


def platform_of(name: str | None) -> Platform:
    """Return the platform of that name; None means the one JAX computes on by default.

    Raises:
        RequestError: an unknown name.
    """
    if name is None:
        name = jax.default_backend()
    if name not in get_args(Platform):
        known = get_args(Platform)
        raise RequestError(f"platform: expected one of {known}, got {name!r}{nearest(str(name), known)}")
    return name
