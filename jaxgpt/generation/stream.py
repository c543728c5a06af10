"""Generation piece by piece: prompts are read, then a compiled loop hands over a few tokens at a time."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Iterator, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from jaxgpt.config import ExecutionConfig, ModelConfig
from jaxgpt.model.cache import Cache, make_cache
from jaxgpt.model.serving import Prepared

from .lookup import PromptLookup
from .programs import Ends, Made, State, begin, choose_over, decode, prefill, repeated, sample_keys
from .requests import GenerationRequest, padded
from .rows import Piece, Rows
from .sampling import Traced
from .speculative import decode_speculatively
from .widths import chunks, room_for, width_of

_WIDTH = 128  # tokens that the loop makes at most before the host looks at them


@dataclasses.dataclass(frozen=True)
class Job:
    """One generation, checked and laid out.

    Attributes:
        params: Laid out for generation.
        prompts: The ids of each.
        source: Sources as arguments of `apply`; empty where there are none.
        key: The PRNG key of the draws.
        patience: Seconds after which a caller would like to see more; None waits for as much as one call makes.
    """

    config: ModelConfig
    execution: ExecutionConfig
    params: Prepared
    prompts: list[list[int]]
    source: Mapping[str, np.ndarray]
    request: GenerationRequest
    key: jax.Array
    patience: float | None

    @functools.cached_property
    def sampling(self) -> Traced:
        """How tokens are drawn, as arrays."""
        return self.request.sampling.traced(self.config.vocab_size)

    @functools.cached_property
    def ends(self) -> Ends:
        """What ends a row; the number of stop ids is rounded up, so that few are compiled for."""
        ids = sorted(self.request.stop_ids)
        padding = [-3] * (max(8, 1 << (len(ids) - 1).bit_length()) - len(ids))
        return Ends(np.array(ids + padding, np.int32), np.int32(self.request.max_new_tokens))

    @property
    def total(self) -> int:
        """Tokens that a cache may have to hold: the last token made is never read."""
        most = max(map(len, self.prompts)) + self.request.max_new_tokens - 1
        return min(most, self.config.context_length)


def run(job: Job, rows: Rows) -> Iterator[list[Piece]]:
    """Yield what is made of the rows, some tokens at a time, until all have ended."""
    if job.request.max_new_tokens == 0:
        yield rows.take(Made(np.empty((len(rows.ids), 0), int), None))
    elif max(map(len, job.prompts)) <= job.config.context_length:
        yield from _from_cache(job, rows)
    if rows.going:
        yield from _over_last_ids(job, rows)


def _from_cache(job: Job, rows: Rows) -> Iterator[list[Piece]]:
    """Read the prompts into a cache, then go on from it as long as the context lasts."""
    request, steps = job.request, _Steps(job.patience)
    logits_BV, cache = _read(job)
    seen_BV = _seen(job.prompts, job.config.vocab_size)
    if request.n > 1:
        cache = repeated(cache, request.n)
    options = {"n": request.n, "logprobs": request.logprobs}
    state, made = begin(logits_BV, cache, seen_BV, job.key, job.sampling, job.ends, **options)
    yield rows.take(made)
    while rows.going and rows.held < job.config.context_length:
        state = _with_ends(_with_room(state, job, rows.held), rows)
        state, made = _more(job, state, rows, steps.count)
        pieces = rows.take(made)
        assert pieces, "a program made nothing of rows that go on"  # or the loop would not end
        yield pieces
        steps.looked_at(max(len(piece.ids) for piece in pieces))


def _read(job: Job) -> tuple[jax.Array, Cache]:
    """Read the prompts, piece by piece; return the logits behind each one's last token, and the cache."""
    config, longest = job.config, max(map(len, job.prompts))
    slots = room_for(longest, job.total, config.context_length)
    source_length = job.source["source_ids_BS"].shape[1] if job.source else None
    B = len(job.prompts)
    cache = make_cache(config, B, slots, source_length=source_length, execution=job.execution)
    logits_BV, source = jnp.zeros((B, config.vocab_size)), job.source
    for start, width in chunks(longest, slots):
        pieces = [prompt[start : start + width] for prompt in job.prompts]
        ids_BT, mask_BT = padded(pieces, width)
        logits_BV, cache = prefill(config, job.execution, job.params.tree, cache, logits_BV, ids_BT, mask_BT, source)
        source = {}
    return logits_BV, cache


def _seen(rows: list[list[int]], vocab_size: int) -> np.ndarray:
    """Return which ids each row holds, [B,V]."""
    seen_BV = np.zeros((len(rows), vocab_size), bool)
    for seen_V, ids in zip(seen_BV, rows, strict=True):
        seen_V[ids] = True
    return seen_BV


def _with_room(state: State, job: Job, held: int) -> State:
    """Return the state with a cache that has room for more than the `held` tokens of the longest row."""
    draft = 0 if job.request.lookup is None else job.request.lookup.draft
    if held + draft < state.cache.slots or state.cache.slots == job.config.context_length:
        return state
    slots = room_for(held + draft + 1, job.total + draft, job.config.context_length)
    return dataclasses.replace(state, cache=state.cache.grown(slots))


def _with_ends(state: State, rows: Rows) -> State:
    """Tell the loop of rows that ended by what only the host can see."""
    ended_B = np.array([reason is not None for reason in rows.reasons])
    return dataclasses.replace(state, done_B=state.done_B | ended_B) if ended_B.any() else state


def _more(job: Job, state: State, rows: Rows, count: int) -> tuple[State, Made]:
    """Make more tokens: `count` of each row or, with lookup, in `count` steps, as far as the cache has room."""
    lookup, room = job.request.lookup, state.cache.slots - rows.held
    if lookup is not None and room > lookup.draft:
        return _drafted(job, state, rows, lookup, count)
    steps = np.int32(min(count, room))
    model = (job.config, job.execution, job.params.tree)
    return decode(*model, state, job.sampling, job.ends, steps, width=_WIDTH, logprobs=job.request.logprobs)


def _drafted(job: Job, state: State, rows: Rows, lookup: PromptLookup, count: int) -> tuple[State, Made]:
    width = _WIDTH // (lookup.draft + 1) + 1
    ids_BN, _ = padded(rows.ids, state.cache.slots + lookup.draft + 1)
    steps = np.int32(min(count, width))
    model = (job.config, job.execution, lookup, job.params.tree)
    how = {"width": width, "logprobs": job.request.logprobs}
    state, made, drafts = decode_speculatively(*model, state, ids_BN, job.sampling, job.ends, steps, **how)
    rows.count_drafts(drafts)
    return state, made


def _over_last_ids(job: Job, rows: Rows) -> Iterator[list[Piece]]:
    """Make token after token from the last ids that fit into the context, nothing remembered: positions restart."""
    n, length = job.request.n, job.config.context_length
    keys_B = sample_keys(job.key, len(job.prompts), n)
    while rows.going:
        last = [ids[-length:] for ids in rows.ids]
        ids_BT, mask_BT = padded(last, width_of(last, length))
        ids_B, nats_B = choose_over(
            job.config,
            job.execution,
            job.params.tree,
            ids_BT,
            mask_BT.sum(axis=1, dtype=np.int32) - 1,
            keys_B,
            np.array([rows.made(row) for row in range(len(rows.ids))]),
            job.sampling,
            _seen(rows.ids, job.config.vocab_size),
            logprobs=job.request.logprobs,
        )
        yield rows.take(Made(ids_B[:, None], None if nats_B is None else nats_B[:, None]))


class _Steps:
    """How many tokens to make before the host looks: as many as fit into the caller's patience."""

    def __init__(self, patience: float | None) -> None:
        self.count = _WIDTH if patience is None else 1
        self._patience = patience
        self._since = time.perf_counter()

    def looked_at(self, tokens: int) -> None:
        """Say that the caller has seen so many tokens more of the quickest row."""
        seconds = time.perf_counter() - self._since
        if self._patience is not None:
            self.count = max(1, min(_WIDTH, 2 * self.count, int(tokens * self._patience / seconds)))
        self._since = time.perf_counter()
