"""Continuing prompts: whole, or piece by piece as the tokens come."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import jax

from jaxgpt.config import ExecutionConfig, ModelConfig
from jaxgpt.model.serving import Prepared, prepare
from jaxgpt.ops.keys import check_key

from .lookup import PromptLookup
from .requests import ContextPolicy, Decode, GenerationRequest, check_prompts, check_request, check_sources
from .rows import Piece, Rows, StopReason
from .sampling import Sampling
from .stream import Job, run


@dataclasses.dataclass(frozen=True)
class Generation:
    """What was generated; with n continuations of each prompt, continuation s of prompt p is row p * n + s.

    Attributes:
        ids: One list per row: the prompt's ids and the new ones behind them.
        stop_reasons: Why each row ended: "length" (max_new_tokens), "stop_id" or "stop_string".
        logprobs: The model's own log-probability of each new token, before temperature and filters, in nats; None
            where they were not asked for.
        acceptance: Share of the drafted tokens that were kept; None where none were drafted.
    """

    ids: list[list[int]]
    stop_reasons: list[StopReason]
    logprobs: list[list[float]] | None = None
    acceptance: float | None = None


def generate(
    config: ModelConfig,
    params: Mapping[str, Any] | Prepared,
    prompts: Sequence[Sequence[int]],
    *,
    sources: Sequence[Sequence[int]] | None = None,
    max_new_tokens: int,
    n: int = 1,
    stop_ids: Collection[int] = (),
    stop_strings: Sequence[str] = (),
    decode: Decode | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float | None = None,
    drawable_ids: int | None = None,
    key: jax.Array,
    logprobs: bool = False,
    lookup: PromptLookup | None = None,
    context_policy: ContextPolicy = "stop",
    execution: ExecutionConfig | None = None,
) -> Generation:
    """Continue each prompt by `max_new_tokens` tokens, or until it stops.

    The prompts are read into a KV cache, and a compiled loop chooses the tokens where the model runs.

    Args:
        config: The architecture.
        params: The tree that `init` gives, or what `prepare` made of it, which saves doing that in each call.
        prompts: Lists of ids, of any lengths; a prompt's result does not depend on the others.
        sources: What an encoder_decoder reads, one list of ids per prompt; a prompt is then the start token, or the
            beginning of the target behind it.
        max_new_tokens: Tokens to append to each, at most.
        n: Continuations of each prompt.
        stop_ids: A row that has been given one of these ids gets no more; the id is kept.
        stop_strings: A row whose new text holds one of these gets no more; the token that completes it is kept.
        decode: Turns ids into text; stop_strings are looked for in what the new ids add to the text of the prompt.
        temperature, top_k, top_p, min_p, repetition_penalty, drawable_ids: See `Sampling`; temperature 0 is greedy.
            A tokenizer's vocab_size as drawable_ids keeps to ids that it can decode.
        key: A PRNG key; token i of continuation s is drawn with fold_in(fold_in(key, s), i), whatever the prompt.
        logprobs: Whether to return log-probabilities.
        lookup: Draft tokens from the text itself and check them together: the same greedy tokens, unless two logits
            lie within rounding of each other, in fewer passes where a text repeats itself. None drafts nothing.
        context_policy: "stop" refuses a prompt that would outgrow the context; "crop" lets the model see the last
            context_length ids only, so positions restart, and every token costs a pass over all of them.
        execution: How to run.

    Returns:
        `.ids`, lists of lists, prompts included, and why each row ended.

    Raises:
        RequestError: no prompt, an empty one, one that is no list of ids, ids outside the vocabulary, a count that is
            not a whole number, a request above the context, sources that are missing or not one per prompt, a model
            that is an encoder alone, stop strings without `decode`, or a lookup for tokens that are not greedy.
        WorkError: the logits are not finite.

    Example:
        >>> config = jaxgpt.ModelConfig.preset("minigpt")
        >>> params = jaxgpt.init(config, key=jax.random.key(0))
        >>> result = generate(config, params, [[0, 1], [4]], max_new_tokens=1, temperature=0, key=jax.random.key(0))
        >>> [len(ids) for ids in result.ids], result.stop_reasons
        ([3, 2], ['length', 'length'])
    """
    sampling = Sampling(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        drawable_ids=drawable_ids,
    )
    request = GenerationRequest(
        max_new_tokens=max_new_tokens,
        n=n,
        sampling=sampling,
        stop_ids=stop_ids,
        stop_strings=stop_strings,
        decode=decode,
        context_policy=context_policy,
        lookup=lookup,
        logprobs=logprobs,
    )
    stream = GenerationStream(config, params, prompts, request, sources=sources, key=key, execution=execution)
    for _ in stream:
        pass
    return stream.result()


class GenerationStream:
    """The pieces of a generation as they come: iterate over it, then ask for its `result`.

    Attributes:
        rows: What there is so far.

    Example:
        >>> config = jaxgpt.ModelConfig.preset("minigpt")
        >>> params = jaxgpt.init(config, key=jax.random.key(0))
        >>> request = GenerationRequest(max_new_tokens=1)
        >>> stream = GenerationStream(config, params, [[0]], request, key=jax.random.key(0))
        >>> [(piece.row, len(piece.ids), piece.stop_reason) for piece in stream]
        [(0, 1, 'length')]
    """

    def __init__(
        self,
        config: ModelConfig,
        params: Mapping[str, Any] | Prepared,
        prompts: Sequence[Sequence[int]],
        request: GenerationRequest,
        *,
        sources: Sequence[Sequence[int]] | None = None,
        key: jax.Array,
        patience: float | None = None,
        execution: ExecutionConfig | None = None,
    ) -> None:
        """Check what is asked; nothing is computed before the first piece is asked for.

        Args:
            config, params, prompts, sources, key, execution: As in `generate`.
            request: What is wanted of each prompt.
            patience: Seconds after which more should come, roughly; None waits for as much as one call makes.

        Raises:
            RequestError: as `generate` does.
        """
        checked = check_prompts(config, prompts, request)
        source = check_sources(config, sources, len(checked), request.context_policy)
        check_request(config, request)
        key, execution = check_key(key), execution or ExecutionConfig()
        self.rows = Rows(checked, request)
        job = Job(
            config, execution, prepare(config, params, execution=execution), checked, source, request, key, patience
        )
        self._request = request
        self._pieces = itertools.chain.from_iterable(run(job, self.rows))

    def __iter__(self) -> Iterator[Piece]:
        """Return the pieces that are still to come."""
        return self._pieces

    def result(self) -> Generation:
        """Return the rows as they are."""
        rows = self.rows
        drafted, kept = int(rows.drafted_B.sum()), int(rows.kept_B.sum())
        acceptance = kept / drafted if drafted else None
        return Generation(rows.ids, rows.reasons, rows.logprobs if self._request.logprobs else None, acceptance)
