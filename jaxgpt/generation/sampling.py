"""Choosing the next token from logits: temperature, then top-k, then top-p, in that order.

The order is that of the widely used samplers: k is counted on the tempered logits, p on what k left.
"""

from __future__ import annotations

import dataclasses
import math
import numbers

import jax
import jax.numpy as jnp

from jaxgpt.config import RequestError

Traced = tuple[jax.Array, jax.Array, jax.Array, jax.Array]
NOT_FINITE = -1  # in place of a token, where there was no distribution to draw from


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampling:
    """How a token is drawn.

    Attributes:
        temperature: Divides the logits; 0 takes the most likely token, the lowest id on ties.
        top_k: Keep exactly the k most likely tokens; None or k >= V keeps all.
        top_p: Keep the smallest set of most likely tokens whose probability reaches p; at least one stays.
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
    drawable_ids: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise RequestError(f"temperature: expected a number of at least 0, got {self.temperature:g}")
        if self.top_k is not None and not (isinstance(self.top_k, numbers.Integral) and self.top_k >= 1):
            raise RequestError(
                f"top_k: expected a whole number of at least 1, got {self.top_k}; leave it out to keep all tokens"
            )
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise RequestError(f"top_p: expected above 0 and at most 1, got {self.top_p:g}; leave it out to keep all")
        if self.drawable_ids is not None and not (
            isinstance(self.drawable_ids, numbers.Integral) and self.drawable_ids >= 1
        ):
            raise RequestError(
                f"drawable_ids: expected a whole number of at least 1, got {self.drawable_ids}; leave it out to draw "
                "among all ids"
            )

    def traced(self, vocab_size: int) -> Traced:
        """Return (temperature, k, p, number of ids to draw among) as arrays: other values do not compile again.

        Raises:
            RequestError: more ids to draw among than the model has.
        """
        drawable = vocab_size if self.drawable_ids is None else self.drawable_ids
        if drawable > vocab_size:
            raise RequestError(f"drawable_ids: the model has {vocab_size} ids, got {drawable}; use at most those")
        k = vocab_size if self.top_k is None else min(self.top_k, vocab_size)
        p = 1.0 if self.top_p is None else self.top_p
        return jnp.float32(self.temperature), jnp.int32(k), jnp.float32(p), jnp.int32(drawable)


def kept_tokens(logits_BV: jax.Array, k: jax.Array, p: jax.Array) -> jax.Array:
    """Return the boolean [B,V] of the tokens that top-k and then top-p leave.

    Example:
        >>> probabilities = jnp.array([[0.5, 0.3, 0.15, 0.05]])
        >>> kept_tokens(jnp.log(probabilities), jnp.int32(2), jnp.float32(0.6)).tolist()  # 0.5 / 0.8 reaches 0.6
        [[True, False, False, False]]
    """
    order_BV = jnp.argsort(logits_BV, axis=-1, descending=True, stable=True)
    ranked_BV = jnp.take_along_axis(logits_BV, order_BV, axis=-1)
    in_k_V = jnp.arange(logits_BV.shape[-1]) < k
    probabilities_BV = jax.nn.softmax(ranked_BV, axis=-1, where=in_k_V)
    before_BV = jnp.cumsum(probabilities_BV, axis=-1) - probabilities_BV
    # The most likely token stays even where p rounds to 0; p = 1 filters nothing, though the sum before a late
    # token can round to 1.
    is_first_V = jnp.arange(logits_BV.shape[-1]) == 0
    kept_BV = in_k_V & ((before_BV < p) | (p >= 1) | is_first_V)
    rank_BV = jnp.argsort(order_BV, axis=-1)
    return jnp.take_along_axis(kept_BV, rank_BV, axis=-1)


def choose(
    logits_BV: jax.Array, key: jax.Array, temperature: jax.Array, k: jax.Array, p: jax.Array, drawable: jax.Array
) -> jax.Array:
    """Draw one token per row, [B]; a row whose logits are not all finite gives NOT_FINITE.

    Every row sees the same random numbers, so what a prompt gets does not depend on its neighbours.
    """
    drawable_BV = jnp.where(jnp.arange(logits_BV.shape[-1]) < drawable, logits_BV, -jnp.inf)
    # Differences from the largest: divided by a tiny temperature they grow to -inf, where logits would all be inf.
    below_BV = drawable_BV - drawable_BV.max(axis=-1, keepdims=True)
    tempered_BV = below_BV / jnp.where(temperature == 0, 1, temperature)
    noise_V = jax.random.gumbel(key, logits_BV.shape[-1:])
    noisy_BV = jnp.where(kept_tokens(tempered_BV, k, p), tempered_BV + noise_V, -jnp.inf)
    chosen_B = jnp.argmax(jnp.where(temperature == 0, drawable_BV, noisy_BV), axis=-1)
    return jnp.where(jnp.isfinite(logits_BV).all(axis=-1), chosen_B, NOT_FINITE)
