"""Generation as a program that is timed, and as what it chose for the check: with a cache, and without."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxgpt.config import ExecutionConfig
from jaxgpt.generation.generate import GenerationStream, generate
from jaxgpt.generation.programs import choose_over
from jaxgpt.generation.requests import GenerationRequest, padded
from jaxgpt.generation.sampling import Sampling
from jaxgpt.generation.widths import width_of
from jaxgpt.model.serving import Prepared
from jaxgpt.ops.keys import random_key

from .workload import Workload

_SAMPLED_STEPS = 4  # of a program without a cache, whose steps take long

_GREEDY = Sampling(temperature=0)


class Choices(NamedTuple):
    """Tokens, and what they were chosen behind.

    Attributes:
        ids_BT: A text.
        at_N: Behind how many of its ids each token was chosen.
        chosen_BN: The tokens.
        nats_BN: The log-probability that each was chosen with; None where it is not known.
    """

    ids_BT: np.ndarray
    at_N: np.ndarray
    chosen_BN: np.ndarray
    nats_BN: np.ndarray | None = None


class Timed(NamedTuple):
    """One generation: seconds until every row has its first token, of a mean step behind it, and the choices."""

    first: float
    step: float
    choices: Choices


@dataclasses.dataclass(frozen=True)
class Program:
    """What is timed.

    Attributes:
        call: Generates once.
        with_nats: Generates once more, and returns the choices with their log-probabilities; None where `call` does.
    """

    call: Callable[[], Timed]
    with_nats: Callable[[], Choices] | None = None


def choices_of(workload: Workload, ids: Any, nats: Any = None) -> Choices:
    """Return the new tokens of whole rows [B,P+N] as choices."""
    ids_BT = np.asarray(ids)
    new = None if nats is None else np.asarray(nats)
    return Choices(ids_BT, np.arange(workload.P, ids_BT.shape[1]), ids_BT[:, workload.P :], new)


def cached(params: Prepared, workload: Workload) -> Program:
    """Return `jaxgpt.generate` itself, timed where its stream hands over the first tokens and where it ends."""
    config, prompts, key = workload.config, workload.prompts(), random_key(0)  # nothing is drawn at temperature 0
    request = GenerationRequest(max_new_tokens=workload.N, sampling=_GREEDY)

    def call() -> Timed:
        start = time.perf_counter()
        stream = GenerationStream(config, params, prompts, request, key=key)
        pieces = iter(stream)
        next(pieces)
        first = time.perf_counter()
        for _ in pieces:
            pass
        end = time.perf_counter()
        return Timed(first - start, (end - first) / workload.steps, choices_of(workload, stream.rows.ids))

    def with_nats() -> Choices:
        made = generate(config, params, prompts, max_new_tokens=workload.N, temperature=0, logprobs=True, key=key)
        return choices_of(workload, made.ids, made.logprobs)

    return Program(call, with_nats)


def sampled_steps(steps: int) -> list[int]:
    """Return a few steps, spread evenly: the middle of each of so many parts.

    >>> sampled_steps(63), sampled_steps(2)
    ([8, 24, 40, 56], [1, 2])
    """
    return sorted({1 + (2 * part + 1) * steps // (2 * _SAMPLED_STEPS) for part in range(_SAMPLED_STEPS)})


def uncached(params: Prepared, workload: Workload) -> Program:
    """Return the naive way: each token costs a pass over the whole text before it, nothing remembered.

    A few steps stand for all, behind ids that do not depend on what was chosen.
    """
    text_BT = workload.text()
    at_N = np.array([workload.P, *(workload.P + step for step in sampled_steps(workload.steps))])
    keys_B, draws_B = jnp.repeat(random_key(0)[None], workload.B), np.zeros(workload.B, np.int32)
    seen_BV = np.zeros((workload.B, workload.config.vocab_size), bool)
    sampling = _GREEDY.traced(workload.config.vocab_size)

    def choose(length: int) -> tuple[np.ndarray, np.ndarray]:
        rows = text_BT[:, :length]
        ids_BT, mask_BT = padded(rows, width_of(rows, workload.config.context_length))
        last_B = mask_BT.sum(axis=1, dtype=np.int32) - 1
        model = (workload.config, ExecutionConfig(), params.tree)
        made = choose_over(*model, ids_BT, last_B, keys_B, draws_B, sampling, seen_BV, logprobs=True)
        return tuple(map(np.asarray, made))

    def call() -> Timed:
        times, found = [time.perf_counter()], []
        for length in at_N:
            found.append(choose(length))
            times.append(time.perf_counter())
        seconds = np.diff(times)
        choices = Choices(text_BT, at_N, *(np.stack(part, axis=1) for part in zip(*found, strict=True)))
        return Timed(seconds[0], seconds[1:].mean(), choices)

    return Program(call)
