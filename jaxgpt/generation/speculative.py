"""The loop that makes several tokens of a row in one pass: draft, check, keep what greedy choices would have been."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxgpt.config import ExecutionConfig, ModelConfig
from jaxgpt.model.modules import Transformer

from .lookup import PromptLookup, drafted
from .programs import NOTHING, Ends, Made, State
from .sampling import Traced, choose, log_probabilities


class Drafts(NamedTuple):
    """How many tokens were drafted for each row, and how many of them were kept."""

    drafted_B: jax.Array
    kept_B: jax.Array


class _Carry(NamedTuple):
    """What a step hands on: the made tokens lie in rows of [B,N], the next one at `count_B`."""

    steps_left: jax.Array
    state: State
    ids_BN: jax.Array
    made: Made
    count_B: jax.Array
    drafts: Drafts


@functools.partial(jax.jit, static_argnames=("width", "logprobs"), donate_argnames="state")
def decode_speculatively(
    config: ModelConfig,
    execution: ExecutionConfig,
    lookup: PromptLookup,
    tree: Mapping[str, Any],
    state: State,
    ids_BN: jax.Array,
    sampling: Traced,
    ends: Ends,
    steps: jax.Array,
    *,
    width: int,
    logprobs: bool,
) -> tuple[State, Made, Drafts]:
    """Take up to `steps` steps, at most `width`, each of 1 to draft + 1 tokens of each row.

    It also ends where the cache has no room for a whole draft.

    Args:
        ids_BN: All ids of each row, with room for those that come.
    """
    B, T = ids_BN.shape[0], lookup.draft + 1
    shape = (B, width * T)
    nothing = Made(jnp.full(shape, NOTHING), jnp.zeros(shape) if logprobs else None)
    none_B = jnp.zeros(B, jnp.int32)

    def going(carry: _Carry) -> jax.Array:
        state = carry.state
        held_B = jnp.where(state.done_B, 0, state.cache.lengths_B)
        return (carry.steps_left > 0) & ~state.done_B.all() & (held_B.max() + T <= state.cache.slots)

    def step(carry: _Carry) -> _Carry:
        state, ids_BN = carry.state, carry.ids_BN
        known_B = state.cache.lengths_B + 1
        draft_BT = drafted(ids_BN, known_B, lookup)
        read_BT = jnp.concatenate([state.last_B[:, None], draft_BT], axis=1)
        logits_BTV, cache = Transformer(config, execution).apply({"params": tree}, read_BT, cache=state.cache)
        chosen_BT, nats_BT = _chosen(logits_BTV, state, sampling, logprobs)
        count_B = _kept(draft_BT, chosen_BT, state, ends)
        new_BT = jnp.where(jnp.arange(T) < count_B[:, None], chosen_BT, NOTHING)
        made = Made(
            _placed(carry.made.ids_BN, new_BT, carry.count_B),
            nats_BT if nats_BT is None else _placed(carry.made.nats_BN, nats_BT, carry.count_B),
        )
        return _Carry(
            carry.steps_left - 1,
            _advanced(state, dataclasses.replace(cache, lengths_B=state.cache.lengths_B + count_B), new_BT, ends),
            _placed(ids_BN, chosen_BT, known_B),
            made,
            carry.count_B + count_B,
            Drafts(
                carry.drafts.drafted_B + jnp.where(state.done_B, 0, lookup.draft),
                carry.drafts.kept_B + jnp.maximum(count_B - 1, 0),
            ),
        )

    start = _Carry(steps, state, ids_BN, nothing, none_B, Drafts(none_B, none_B))
    _, state, _, made, _, drafts = jax.lax.while_loop(going, step, start)
    return state, made, drafts


def _chosen(
    logits_BTV: jax.Array, state: State, sampling: Traced, logprobs: bool
) -> tuple[jax.Array, jax.Array | None]:
    """Return the greedy choice at every position, and its log-probability."""
    B, T, V = logits_BTV.shape
    logits_RV = logits_BTV.reshape(B * T, V)
    chosen_R = choose(logits_RV, jnp.repeat(state.keys_B, T), sampling, jnp.repeat(state.seen_BV, T, axis=0))
    nats_BT = log_probabilities(logits_RV, chosen_R).reshape(B, T) if logprobs else None
    return chosen_R.reshape(B, T), nats_BT


def _kept(draft_BT: jax.Array, chosen_BT: jax.Array, state: State, ends: Ends) -> jax.Array:
    """Return how many chosen tokens count: as long as the draft agreed, nothing ended, and there may be more."""
    agreed_BT = jnp.cumprod(draft_BT == chosen_BT[:, :-1], axis=1)
    stops_BT = ends.reached(chosen_BT)
    until_stop_B = jnp.where(stops_BT.any(axis=1), jnp.argmax(stops_BT, axis=1) + 1, chosen_BT.shape[1])
    count_B = jnp.minimum(jnp.minimum(agreed_BT.sum(axis=1) + 1, until_stop_B), ends.most - state.made_B)
    return jnp.where(state.done_B, 0, count_B)


def _advanced(state: State, cache: Any, new_BT: jax.Array, ends: Ends) -> State:
    count_B = (new_BT != NOTHING).sum(axis=1)
    newest_B = jnp.take_along_axis(new_BT, jnp.maximum(count_B - 1, 0)[:, None], axis=1)[:, 0]
    last_B = jnp.where(count_B > 0, newest_B, state.last_B)
    made_B = state.made_B + count_B
    done_B = state.done_B | ends.reached(last_B) | (made_B >= ends.most)
    return dataclasses.replace(state, cache=cache, last_B=last_B, made_B=made_B, done_B=done_B)


def _placed(rows_BN: jax.Array, new_BT: jax.Array, start_B: jax.Array) -> jax.Array:
    """Return the rows with new entries from each row's own start on."""
    return jax.vmap(lambda row_N, new_T, start: jax.lax.dynamic_update_slice(row_N, new_T, (start,)))(
        rows_BN, new_BT, start_B
    )
