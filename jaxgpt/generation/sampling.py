"""Choosing the next token from logits: repetition penalty, temperature, top-k, top-p, min-p, in that order.

The order is that of the widely used samplers: k is counted on the tempered logits, p on what k left.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxgpt.config import RequestError
from jaxgpt.ops.contracts import check_shape

from . import filters

NOT_FINITE = -1  # in place of a token, where there was no distribution to draw from
_SMALLEST, _LARGEST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)  # below is 0 on devices


class Traced(NamedTuple):
    """A `Sampling` as arguments of a program: other values do not compile again.

    What filters nothing has its neutral value. They are NumPy's, which cost nothing before they are passed.
    """

    temperature: jax.Array
    top_k: jax.Array
    top_p: jax.Array
    min_p: jax.Array
    repetition_penalty: jax.Array
    drawable_ids: jax.Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampling:
    """How a token is drawn.

    Attributes:
        temperature: Divides the logits; 0, or what float32 takes for 0, takes the most likely token, the lowest id on
            ties.
        top_k: Keep exactly the k most likely tokens, the lowest ids among equals; None or k >= V keeps all.
        top_p: Keep the smallest set of most likely tokens whose probability reaches p; at least one stays. None or 1
            keeps all.
        min_p: Keep the tokens that are at least this times as likely as the most likely one, 0 to 1. None or 0 keeps
            all.
        repetition_penalty: Divides the positive logits and multiplies the negative ones of every id that the row
            holds already, those of the prompt and the new ones; above 1 makes them less likely. None or 1 leaves all.
        drawable_ids: Draw among the first N ids, those that a tokenizer has where the model has more; None means all.

    Raises:
        RequestError: a value that no distribution has.

    Example:
        >>> Sampling(temperature=0.8, top_k=50).top_p is None
        True
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    drawable_ids: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise RequestError(f"temperature: expected a number of at least 0, got {self.temperature:g}")
        _check_count("top_k", self.top_k, "keep all tokens")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise RequestError(f"top_p: expected above 0 and at most 1, got {self.top_p:g}; leave it out to keep all")
        if self.min_p is not None and not 0 <= self.min_p <= 1:
            raise RequestError(f"min_p: expected 0 to 1, got {self.min_p:g}; leave it out to keep all")
        penalty = self.repetition_penalty
        if penalty is not None and not _SMALLEST <= penalty <= _LARGEST:
            raise RequestError(
                f"repetition_penalty: expected a float32 above 0, got {penalty:g}; leave it out for no penalty"
            )
        _check_count("drawable_ids", self.drawable_ids, "draw among all ids")

    def traced(self, vocab_size: int) -> Traced:
        """Return the values for a model of `vocab_size` ids.

        Raises:
            RequestError: more ids to draw among than the model has.
        """
        drawable = vocab_size if self.drawable_ids is None else self.drawable_ids
        if drawable > vocab_size:
            raise RequestError(f"drawable_ids: the model has {vocab_size} ids, got {drawable}; use at most those")
        return Traced(
            temperature=np.float32(self.temperature if self.temperature >= _SMALLEST else 0),
            top_k=np.int32(drawable if self.top_k is None else min(self.top_k, drawable)),
            top_p=np.float32(1 if self.top_p is None else self.top_p),
            min_p=np.float32(0 if self.min_p is None else self.min_p),
            repetition_penalty=np.float32(1 if self.repetition_penalty is None else self.repetition_penalty),
            drawable_ids=np.int32(drawable),
        )


def _check_count(name: str, value: int | None, without: str) -> None:
    if value is not None and not (isinstance(value, numbers.Integral) and value >= 1):
        raise RequestError(f"{name}: expected a whole number of at least 1, got {value}; leave it out to {without}")


def choose(
    logits_BV: jax.Array,
    keys_B: jax.Array,
    sampling: Traced,
    seen_BV: jax.Array,
    *,
    draws_B: jax.Array | None = None,
) -> jax.Array:
    """Choose one token per row.

    A row's token depends on its own logits, key and seen ids alone. What is not asked for is not computed: a greedy
    choice draws no random numbers, and a filter that keeps all is skipped.

    Args:
        logits_BV: What the model says of the next token, float32.
        keys_B: One PRNG key per row.
        sampling: What `Sampling.traced` gives.
        seen_BV: True for the ids that the row holds already, which the repetition penalty is for.
        draws_B: Which draw of its key each row is at: it draws with fold_in(key, draw). None draws with the key.

    Returns:
        Ids, [B], int32; NOT_FINITE for a row whose logits are not all finite: its model is damaged.

    Example:
        >>> keys_B = jax.random.split(jax.random.key(0), 1)
        >>> logits_BV = jnp.array([[0.0, 3.0, 2.0]])
        >>> greedy = Sampling(temperature=0, repetition_penalty=2.0).traced(3)
        >>> choose(logits_BV, keys_B, greedy, jnp.array([[False, True, False]])).tolist()
        [2]
    """
    check_shape("logits_BV", logits_BV)
    B, V = logits_BV.shape
    check_shape("keys_B", keys_B, B=B)
    check_shape("seen_BV", seen_BV, B=B, V=V)

    def penalised() -> jax.Array:
        return filters.penalised(logits_BV, seen_BV, sampling.repetition_penalty)

    # Each branch computes the penalised logits in its own loops, where both sharing one array would store it first.
    chosen_B = jax.lax.cond(
        sampling.temperature == 0,
        lambda: _likeliest(penalised(), sampling),
        lambda: _drawn(penalised(), _folded(keys_B, draws_B), sampling),
    )
    return jnp.where(jnp.isfinite(logits_BV).all(axis=-1), chosen_B, NOT_FINITE)


def log_probabilities(logits_BV: jax.Array, ids_B: jax.Array) -> jax.Array:
    """Return the model's own log-probability of each row's id, before temperature and filters, in nats, [B] float32.

    NOT_FINITE, and any other id that the row lacks, gives NaN.

    Example:
        >>> round(log_probabilities(jnp.log(jnp.array([[1.0, 3.0]])), jnp.array([1])).item(), 3)  # ln 0.75
        -0.288
    """
    check_shape("logits_BV", logits_BV)
    check_shape("ids_B", ids_B, B=logits_BV.shape[0])
    V = logits_BV.shape[-1]
    # Differences from the largest, as beside a huge logit the sum's logarithm would vanish.
    below_BV = logits_BV.astype(jnp.float32) - logits_BV.max(axis=-1, keepdims=True)
    ids_B = jnp.where(ids_B < 0, V, ids_B)  # indexing would count negative ones from the end
    chosen_B1 = jnp.take_along_axis(below_BV, ids_B[:, None], axis=-1, mode="fill", fill_value=jnp.nan)
    return chosen_B1[:, 0] - jnp.log(jnp.exp(below_BV).sum(axis=-1))


def _likeliest(logits_BV: jax.Array, sampling: Traced) -> jax.Array:
    is_drawable_V = jnp.arange(logits_BV.shape[-1]) < sampling.drawable_ids
    return _first_largest(jnp.where(is_drawable_V, logits_BV, -jnp.inf))


def _drawn(logits_BV: jax.Array, keys_B: jax.Array, sampling: Traced) -> jax.Array:
    """Draw with Gumbel noise: the largest of the kept log-probabilities plus noise falls as the softmax does."""
    distance_BV = filters.distances(logits_BV, sampling.temperature, sampling.drawable_ids)
    kept_BV = kept_tokens(distance_BV, sampling).mask(distance_BV)
    noise_BV = _gumbel(keys_B, logits_BV.shape[-1])
    return _first_largest(jnp.where(kept_BV, noise_BV - distance_BV, -jnp.inf))


def _folded(keys_B: jax.Array, draws_B: jax.Array | None) -> jax.Array:
    return keys_B if draws_B is None else jax.vmap(jax.random.fold_in)(keys_B, draws_B)


def _gumbel(keys_B: jax.Array, V: int) -> jax.Array:
    """Return each key's first V numbers; XLA's CPU code for 50,304 of them takes a third as long as for 50,257."""
    return jax.vmap(lambda key: jax.random.gumbel(key, (V + -V % 64,)))(keys_B)[:, :V]


def _first_largest(scores_BV: jax.Array) -> jax.Array:
    """Return the argmax of each row; on CPU XLA computes the scores of a reduction to one value in vectors."""
    is_largest_BV = scores_BV == scores_BV.max(axis=-1, keepdims=True)
    V = scores_BV.shape[-1]
    return jnp.where(is_largest_BV, jnp.arange(V, dtype=jnp.int32), V).min(axis=-1)


def kept_tokens(distance_BV: jax.Array, sampling: Traced) -> filters.Ranked:
    """Return the tokens that the filters leave; those that keep all are skipped when the program runs.

    Example:
        >>> distance_BV = filters.distances(jnp.log(jnp.array([[0.5, 0.3, 0.15, 0.05]])), 1.0, 4)
        >>> kept = kept_tokens(distance_BV, Sampling(top_k=2, top_p=0.6).traced(4))  # 0.5 / 0.8 reaches 0.6
        >>> kept.mask(distance_BV).tolist()
        [[True, False, False, False]]
    """
    ranked = filters.drawable_tokens(distance_BV, sampling.drawable_ids)
    for is_asked_for, narrowed, value in (
        (sampling.top_k < sampling.drawable_ids, filters.top_k, sampling.top_k),
        (sampling.top_p < 1, filters.top_p, sampling.top_p),
    ):
        narrow = functools.partial(narrowed, distance_BV, ranked, value)
        ranked = jax.lax.cond(is_asked_for, narrow, lambda ranked=ranked: ranked)
    return filters.min_p(distance_BV, ranked, sampling.min_p)
