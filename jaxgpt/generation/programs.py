"""The compiled programs of generation: read a prompt, choose the first token, and the loop that makes the others."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxgpt.config import ExecutionConfig, ModelConfig
from jaxgpt.model.cache import Cache
from jaxgpt.model.modules import Transformer

from .sampling import NOT_FINITE, Traced, choose, log_probabilities

NOTHING = -2  # in place of a token, where a row had ended


@dataclasses.dataclass(frozen=True)
class State:
    """Where the rows of a generation stand.

    Attributes:
        cache: What the model has read: everything but the last token of each row.
        last_B: That token.
        made_B: How many new tokens each row has.
        done_B: Whether it has ended.
        seen_BV: Ids that it holds.
        keys_B: The PRNG key that its tokens' keys are folded from.
    """

    cache: Cache
    last_B: jax.Array
    made_B: jax.Array
    done_B: jax.Array
    seen_BV: jax.Array
    keys_B: jax.Array


jax.tree_util.register_dataclass(State, data_fields=[f.name for f in dataclasses.fields(State)], meta_fields=[])


class Ends(NamedTuple):
    """What ends a row: one of these ids (any padding among them is no id), or this many new tokens."""

    stop_ids_U: jax.Array
    most: jax.Array

    def reached(self, ids: jax.Array) -> jax.Array:
        """Return which of the ids end their row: a stop id, or none at all where the model is damaged."""
        return (ids[..., None] == self.stop_ids_U).any(axis=-1) | (ids == NOT_FINITE)


class Made(NamedTuple):
    """New tokens [B,N], NOTHING where a row had ended, and their log-probabilities or None."""

    ids_BN: jax.Array
    nats_BN: jax.Array | None


@functools.partial(jax.jit, donate_argnames=("cache", "logits_BV"))
def prefill(
    config: ModelConfig,
    execution: ExecutionConfig,
    tree: Mapping[str, Any],
    cache: Cache,
    logits_BV: jax.Array,
    token_ids_BT: jax.Array,
    mask_BT: jax.Array,
    source: Mapping[str, jax.Array],
) -> tuple[jax.Array, Cache]:
    """Read a piece of the prompts; return the logits behind the last token of each row that had one in it."""
    last_B = jnp.maximum(mask_BT.sum(axis=1) - 1, 0)
    new_B1V, cache = Transformer(config, execution).apply(
        {"params": tree}, token_ids_BT, mask_BT=mask_BT, cache=cache, scored_B=last_B, **source
    )
    return jnp.where(mask_BT.any(axis=1)[:, None], new_B1V[:, 0], logits_BV), cache


def sample_keys(key: jax.Array, B: int, n: int) -> jax.Array:
    """Return the keys of n continuations of each of B prompts: n different ones, for all prompts the same."""
    keys_n = jax.vmap(functools.partial(jax.random.fold_in, key))(jnp.arange(n))
    return jnp.tile(keys_n, B)


@functools.partial(jax.jit, static_argnames="n")
def repeated(cache: Cache, n: int) -> Cache:
    """Return the cache of n continuations of each row."""
    return cache.repeated(n)


@functools.partial(jax.jit, static_argnames=("n", "logprobs"), donate_argnames="cache")
def begin(
    logits_BV: jax.Array,
    cache: Cache,
    seen_BV: jax.Array,
    key: jax.Array,
    sampling: Traced,
    ends: Ends,
    *,
    n: int,
    logprobs: bool,
) -> tuple[State, Made]:
    """Choose the first token of n continuations of each row; the cache is theirs already."""
    B = logits_BV.shape[0]
    none_B = jnp.zeros(B * n, jnp.int32)
    state = State(
        cache,
        none_B,
        none_B,
        none_B > 0,
        jnp.repeat(seen_BV, n, axis=0),
        sample_keys(key, B, n),
    )
    state, ids_B, nats_B = _with_token(state, jnp.repeat(logits_BV, n, axis=0), sampling, ends, logprobs)
    return state, Made(ids_B[:, None], nats_B if nats_B is None else nats_B[:, None])


@functools.partial(jax.jit, static_argnames=("width", "logprobs"), donate_argnames="state")
def decode(
    config: ModelConfig,
    execution: ExecutionConfig,
    tree: Mapping[str, Any],
    state: State,
    sampling: Traced,
    ends: Ends,
    steps: jax.Array,
    *,
    width: int,
    logprobs: bool,
) -> tuple[State, Made]:
    """Make up to `steps` more tokens of each row, at most `width`, which is how wide the result is."""
    B = state.last_B.shape[0]
    model = Transformer(config, execution)

    def going(carry: tuple[jax.Array, State, Made]) -> jax.Array:
        i, state, _ = carry
        return (i < steps) & ~state.done_B.all()

    def step(carry: tuple[jax.Array, State, Made]) -> tuple[jax.Array, State, Made]:
        i, state, made = carry
        # The last token of a row that has ended counts as padding: its row writes into one slot again and again.
        logits_B1V, cache = model.apply(
            {"params": tree}, state.last_B[:, None], mask_BT=~state.done_B[:, None], cache=state.cache
        )
        state = dataclasses.replace(state, cache=cache)
        state, *new = _with_token(state, logits_B1V[:, 0], sampling, ends, logprobs)
        return i + 1, state, Made(*(x if x is None else x.at[:, i].set(y) for x, y in zip(made, new, strict=True)))

    nothing = Made(jnp.full((B, width), NOTHING), jnp.zeros((B, width)) if logprobs else None)
    _, state, made = jax.lax.while_loop(going, step, (jnp.int32(0), state, nothing))
    return state, made


def _with_token(
    state: State, logits_BV: jax.Array, sampling: Traced, ends: Ends, logprobs: bool
) -> tuple[State, jax.Array, jax.Array | None]:
    """Return the state with one more token in each row that goes on, the tokens, and their log-probabilities."""
    chosen_B = choose(logits_BV, state.keys_B, sampling, state.seen_BV, draws_B=state.made_B)
    nats_B = log_probabilities(logits_BV, chosen_B) if logprobs else None
    made_B = state.made_B + ~state.done_B
    rows = jnp.arange(chosen_B.shape[0])
    after = dataclasses.replace(
        state,
        last_B=chosen_B,
        made_B=made_B,
        done_B=state.done_B | ends.reached(chosen_B) | (made_B >= ends.most),
        seen_BV=state.seen_BV.at[rows, chosen_B].set(True),
    )
    return after, jnp.where(state.done_B, NOTHING, chosen_B), nats_B


@functools.partial(jax.jit, static_argnames="logprobs")
def choose_over(
    config: ModelConfig,
    execution: ExecutionConfig,
    params: Mapping[str, Any],
    token_ids_BT: jax.Array,
    last_B: jax.Array,
    keys_B: jax.Array,
    draws_B: jax.Array,
    sampling: Traced,
    seen_BV: jax.Array,
    *,
    logprobs: bool,
) -> tuple[jax.Array, jax.Array | None]:
    """Choose the token behind each row from all of its ids, with nothing remembered; they end at index `last_B`."""
    logits_B1V = Transformer(config, execution).apply({"params": params}, token_ids_BT, scored_B=last_B)
    chosen_B = choose(logits_B1V[:, 0], keys_B, sampling, seen_BV, draws_B=draws_B)
    return chosen_B, log_probabilities(logits_B1V[:, 0], chosen_B) if logprobs else None
