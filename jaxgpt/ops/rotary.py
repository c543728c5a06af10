"""Rotary positions: queries and keys turn by an angle that grows with the position.

The product of a rotated query and a rotated key then depends on the distance between them alone
(Su et al. 2021, arXiv 2104.09864).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxgpt.config import ModelConfig

from .contracts import check_shape

Pairing = Literal["half", "interleaved"]


@dataclasses.dataclass(frozen=True)
class Rotation:
    """Cosines and sines of the angles, float32, [1,T,1,D/2] or [B,T,1,D/2], and which features turn together."""

    cos: jax.Array
    sin: jax.Array
    pairing: Pairing


jax.tree_util.register_dataclass(Rotation, data_fields=["cos", "sin"], meta_fields=["pairing"])


def frequencies(config: ModelConfig) -> np.ndarray:
    """Return the angle per position, in radians, of each pair of features, float32 [D/2].

    Pair i turns by theta^(-2i/D). Stretching a context divides by `rope_factor`: everything (linear), or only the
    pairs that turn few times over the original context, with a ramp between the two bounds: over the number of turns
    (llama3, as Llama 3.1 was released), or over the index of the pair (yarn, Peng et al. 2023, arXiv 2309.00071).

    Example:
        >>> frequencies(ModelConfig(position="rope", width=8, heads=2)).tolist()
        [1.0, 0.009999999776482582]
    """
    D = config.head_width
    plain = config.rope_theta ** -(np.arange(0, D, 2) / D)
    match config.rope_scaling:
        case None:
            stretched_share = np.zeros_like(plain)
        case "linear":
            stretched_share = np.ones_like(plain)
        case "llama3":
            stretched_share = _llama3_share(config, plain)
        case "yarn":
            stretched_share = _yarn_share(config)
    return (plain * (1 - stretched_share) + plain / config.rope_factor * stretched_share).astype(np.float32)


def _llama3_share(config: ModelConfig, plain: np.ndarray) -> np.ndarray:
    """1 at and below the low number of turns, 0 at and above the high one, straight in between."""
    turns = config.rope_original_context * plain / (2 * math.pi)
    low, high = config.rope_low_rotations, config.rotations_left_alone
    return 1 - np.clip((turns - low) / (high - low), 0, 1)


def _yarn_share(config: ModelConfig) -> np.ndarray:
    """0 up to the pair that turns the high number of times, 1 from the one of the low number, straight in between.

    The two pairs' indices are rounded outwards, as in the authors' code.
    """
    D = config.head_width

    def pair_that_turns(turns: float) -> float:
        return D * math.log(config.rope_original_context / (turns * 2 * math.pi)) / (2 * math.log(config.rope_theta))

    first = max(math.floor(pair_that_turns(config.rotations_left_alone)), 0)
    last = min(math.ceil(pair_that_turns(config.rope_low_rotations)), D - 1)
    return np.clip((np.arange(D // 2) - first) / max(last - first, 0.001), 0, 1)


def amplitude(config: ModelConfig) -> float:
    """Return the factor of rotated queries and keys: 1, or under yarn `rope_attention_factor`."""
    if config.rope_scaling != "yarn":
        return 1.0
    default = 0.1 * math.log(config.rope_factor) + 1
    return default if config.rope_attention_factor is None else config.rope_attention_factor


def rotation(config: ModelConfig, positions: jax.Array) -> Rotation:
    """Return the rotation of the tokens at `positions`, whole numbers [T] or [B,T].

    Example:
        >>> config = ModelConfig(position="rope", width=8, heads=2)
        >>> rotation(config, jnp.arange(3)).cos.shape
        (1, 3, 1, 2)
    """
    positions_BT = positions[None] if jnp.ndim(positions) == 1 else positions
    check_shape("positions_BT", positions_BT)
    angles = positions_BT.astype(jnp.float32)[:, :, None, None] * frequencies(config)
    factor = amplitude(config)
    return Rotation(jnp.cos(angles) * factor, jnp.sin(angles) * factor, config.rope_pairing)


def rotate(x_BTHD: jax.Array, rotation: Rotation) -> jax.Array:
    """Turn each pair of features of x; [B,T,H,D] -> [B,T,H,D], computed in float32.

    Raises:
        RequestError: x of another length or head size than the rotation's.

    Example:
        >>> config = ModelConfig(position="rope", width=2, heads=1)
        >>> x = jnp.ones((1, 2, 1, 2))
        >>> [round(float(y), 4) for y in rotate(x, rotation(config, jnp.arange(2)))[0, 1, 0]]  # by one radian
        [-0.3012, 1.3818]
    """
    cos, sin = rotation.cos, rotation.sin
    check_shape("x_BTHD", x_BTHD, T=cos.shape[1], D=2 * cos.shape[-1])
    x32 = x_BTHD.astype(jnp.float32)
    if rotation.pairing == "half":
        a, b = jnp.split(x32, 2, axis=-1)
        turned = jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
    else:
        a, b = x32[..., ::2], x32[..., 1::2]
        turned = jnp.stack([a * cos - b * sin, b * cos + a * sin], axis=-1).reshape(x32.shape)
    return turned.astype(x_BTHD.dtype)


def sinusoidal_table(T: int, C: int) -> np.ndarray:
    """Return the fixed table of positions, float32 [T,C]: sines at even features, cosines at odd ones.

    Feature pair i of position t is sin and cos of t / 10000^(2i/C). (Vaswani et al. 2017, section 3.5)

    Example:
        >>> sinusoidal_table(2, 4)[0].tolist()
        [0.0, 1.0, 0.0, 1.0]
    """
    angles = np.arange(T)[:, None] / 10000.0 ** (np.arange(0, C, 2) / C)
    table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(T, -1)
    return table[:, :C].astype(np.float32)
