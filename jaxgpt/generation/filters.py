"""Which tokens may be drawn, found without sorting the vocabulary.

Top-k, top-p and min-p each keep the first tokens of one ranking: the most likely first, the lowest id among equals.
Such a set is known by its last token alone, and that one is found by halving the range of float32, counting at each
half what lies above: 31 passes over the logits, where a sort of 50,000 of them takes ten times as long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

_INFINITY_BITS = (
    0x7F800000  # the bits of float32's infinity: those of the numbers from 0 to it are 0 to this, in order
)


class Ranked(NamedTuple):
    """The first tokens of each row's ranking, by the last of them.

    Attributes:
        farthest_B: Its distance from the most likely token: every nearer token is in the set.
        ids_below_B: Of the tokens at that very distance, those with a smaller id than this are in the set.
    """

    farthest_B: jax.Array
    ids_below_B: jax.Array

    def mask(self, distance_BV: jax.Array) -> jax.Array:
        """Return the boolean [B,V] of the tokens in the set."""
        farthest_B1, ids_below_B1 = self.farthest_B[:, None], self.ids_below_B[:, None]
        is_tied_BV = (distance_BV == farthest_B1) & (jnp.arange(distance_BV.shape[-1]) < ids_below_B1)
        return (distance_BV < farthest_B1) | is_tied_BV

    def intersection(self, other: Ranked) -> Ranked:
        """Return the smaller of the two sets in each row, as one contains the other."""
        is_nearer_B = self.farthest_B < other.farthest_B
        is_as_far_B = self.farthest_B == other.farthest_B
        ids_below_B = jnp.where(is_nearer_B, self.ids_below_B, other.ids_below_B)
        fewer_B = jnp.minimum(self.ids_below_B, other.ids_below_B)
        return Ranked(jnp.minimum(self.farthest_B, other.farthest_B), jnp.where(is_as_far_B, fewer_B, ids_below_B))


def penalised(logits_BV: jax.Array, seen_BV: jax.Array, penalty: jax.Array) -> jax.Array:
    """Return the logits, those of seen ids divided by the penalty where positive and multiplied where negative.

    What float32 cannot hold becomes its largest number: finite logits stay finite (Keskar et al. 2019, arXiv
    1909.05858, section 4.1, whose division alone would reward negative logits).

    Example:
        >>> penalised(jnp.array([[2.0, -2.0, 2.0]]), jnp.array([[True, True, False]]), jnp.float32(4)).tolist()
        [[0.5, -8.0, 2.0]]
    """
    largest = jnp.finfo(logits_BV.dtype).max
    lowered_BV = jnp.where(logits_BV > 0, logits_BV / penalty, logits_BV * penalty)
    return jnp.where(seen_BV, jnp.clip(lowered_BV, -largest, largest), logits_BV)


def distances(logits_BV: jax.Array, temperature: jax.Array, drawable: jax.Array) -> jax.Array:
    """Return how far each tempered logit lies below the row's largest; infinity from id `drawable` on.

    Divided by a tiny temperature a difference grows to infinity, where the logits themselves would all be infinite.
    """
    is_drawable_V = jnp.arange(logits_BV.shape[-1]) < drawable
    largest_B1 = jnp.where(is_drawable_V, logits_BV, -jnp.inf).max(axis=-1, keepdims=True)
    return jnp.where(is_drawable_V, (largest_B1 - logits_BV) / temperature, jnp.inf)


def drawable_tokens(distance_BV: jax.Array, drawable: jax.Array) -> Ranked:
    """Return the first `drawable` ids, whose distances alone may be below infinity."""
    rows = distance_BV.shape[:1]
    return Ranked(jnp.full(rows, jnp.inf), jnp.full(rows, drawable, jnp.int32))


def top_k(distance_BV: jax.Array, ranked: Ranked, k: jax.Array) -> Ranked:
    """Return the k most likely tokens of a set that has at least k.

    Example:
        >>> distance_BV = distances(jnp.array([[1.0, 2.0, 2.0, 1.0]]), 1.0, 4)
        >>> top_k(distance_BV, drawable_tokens(distance_BV, 4), 3).mask(distance_BV).tolist()
        [[True, True, True, False]]
    """
    return _fewest(distance_BV, 1.0, k).intersection(ranked)


def top_p(distance_BV: jax.Array, ranked: Ranked, p: jax.Array) -> Ranked:
    """Return the fewest most likely tokens of a set that have p of its probability, at least one of them.

    Holtzman et al. 2019, arXiv 1904.09751, section 3.1.

    Example:
        >>> distance_BV = distances(jnp.log(jnp.array([[0.15, 0.5, 0.3, 0.05]])), 1.0, 4)
        >>> top_p(distance_BV, drawable_tokens(distance_BV, 4), 0.7).mask(distance_BV).tolist()
        [[False, True, True, False]]
    """
    mass_BV = jnp.where(ranked.mask(distance_BV), jnp.exp(-distance_BV), 0)
    return _fewest(distance_BV, mass_BV, p * mass_BV.sum(axis=-1)).intersection(ranked)


def min_p(distance_BV: jax.Array, ranked: Ranked, p: jax.Array) -> Ranked:
    """Return the tokens of a set that are at least p times as likely as its most likely one.

    Nguyen et al. 2024, arXiv 2407.01082, section 3.

    Example:
        >>> distance_BV = distances(jnp.log(jnp.array([[0.1, 0.6, 0.3]])), 1.0, 3)
        >>> min_p(distance_BV, drawable_tokens(distance_BV, 3), 0.4).mask(distance_BV).tolist()
        [[False, True, True]]
    """
    rows, V = distance_BV.shape
    return Ranked(jnp.full(rows, -jnp.log(p)), jnp.full(rows, V, jnp.int32)).intersection(ranked)


def _fewest(distance_BV: jax.Array, mass_BV: jax.Array | float, goal_B: jax.Array) -> Ranked:
    """Return the fewest most likely tokens whose mass reaches the goal, all where none does, at least one."""

    def reaches(bits_B: jax.Array) -> jax.Array:
        within_BV = distance_BV <= _as_float(bits_B)[:, None]
        return jnp.where(within_BV, mass_BV, 0).sum(axis=-1) >= goal_B

    rows, V = distance_BV.shape
    farthest_B = _as_float(_smallest(reaches, rows, _INFINITY_BITS))
    nearer_B = jnp.where(distance_BV < farthest_B[:, None], mass_BV, 0).sum(axis=-1)
    is_tied_BV = distance_BV == farthest_B[:, None]
    each_B = jnp.where(is_tied_BV, mass_BV, 0).max(axis=-1)
    wanted_B = jnp.where(each_B > 0, jnp.ceil((goal_B - nearer_B) / each_B), V).clip(1, V).astype(jnp.int32)
    ids_below_B = jax.lax.cond(
        (is_tied_BV.sum(axis=-1) > wanted_B).any(),
        lambda: _first_ids(is_tied_BV, wanted_B),
        lambda: jnp.full(rows, V, jnp.int32),
    )
    return Ranked(farthest_B, ids_below_B)


def _first_ids(is_tied_BV: jax.Array, wanted_B: jax.Array) -> jax.Array:
    """Return the id below which each row has the wanted number of ties."""
    rows, V = is_tied_BV.shape

    def holds(id_B: jax.Array) -> jax.Array:
        return (is_tied_BV & (jnp.arange(V) < id_B[:, None])).sum(axis=-1) >= wanted_B

    return _smallest(holds, rows, V)


def _smallest(is_enough: Callable[[jax.Array], jax.Array], rows: int, highest: int) -> jax.Array:
    """Return per row the smallest integer of 0..highest that is enough, or `highest`, by halving."""

    def halve(_: int, bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low_B, high_B = bounds
        middle_B = low_B + (high_B - low_B) // 2
        enough_B = is_enough(middle_B)
        return jnp.where(enough_B, low_B, jnp.minimum(middle_B + 1, high_B)), jnp.where(enough_B, middle_B, high_B)

    bounds = jnp.zeros(rows, jnp.int32), jnp.full(rows, highest, jnp.int32)
    return jax.lax.fori_loop(0, highest.bit_length(), halve, bounds)[1]


def _as_float(bits_B: jax.Array) -> jax.Array:
    return jax.lax.bitcast_convert_type(bits_B, jnp.float32)
