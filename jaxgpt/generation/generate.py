"""The generation loop: run the model on what there is, choose a token, append it."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Collection, Mapping, Sequence, Sized
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxgpt.config import ExecutionConfig, ModelConfig, RequestError, WorkError
from jaxgpt.model.functional import apply
from jaxgpt.model.inputs import check_id_range

from .sampling import NOT_FINITE, Sampling, Traced, choose

ContextPolicy = Literal["stop", "crop"]
_SMALLEST_WIDTH = 32  # narrower windows cost as much as this one and would each be compiled


@dataclasses.dataclass(frozen=True)
class Generation:
    """What was generated.

    Attributes:
        ids: One list per prompt: the prompt's ids and the new ones behind them.
    """

    ids: list[list[int]]


def generate(
    config: ModelConfig,
    params: Mapping[str, Any],
    prompts: Sequence[Sequence[int]],
    *,
    sources: Sequence[Sequence[int]] | None = None,
    max_new_tokens: int,
    stop_ids: Collection[int] = (),
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float | None = None,
    drawable_ids: int | None = None,
    key: jax.Array,
    context_policy: ContextPolicy = "stop",
    execution: ExecutionConfig | None = None,
) -> Generation:
    """Continue each prompt by `max_new_tokens` tokens, or until it stops.

    Args:
        config: The architecture.
        params: The tree that `init` gives.
        prompts: Lists of ids, of any lengths; a prompt's result does not depend on the others.
        sources: What an encoder_decoder reads, one list of ids per prompt; a prompt is then the start token, or the
            beginning of the target behind it.
        max_new_tokens: Tokens to append to each, at most.
        stop_ids: A prompt that has been given one of these ids gets no more; the id is kept.
        temperature, top_k, top_p, min_p, repetition_penalty, drawable_ids: See `Sampling`; temperature 0 is greedy. A
            tokenizer's vocab_size as drawable_ids keeps to ids that it can decode. The penalty counts all ids of a
            prompt and of what follows it, those that a cropped context has lost too; a source's ids do not count.
        key: A PRNG key; token i of every prompt is drawn with fold_in(key, i).
        context_policy: "stop" refuses a prompt that would outgrow the context; "crop" lets the model see the last
            context_length ids only, so positions restart.
        execution: How to run.

    Returns:
        `.ids`, lists of lists, prompts included.

    Raises:
        RequestError: no prompt, an empty one, one that is no list of ids, ids outside the vocabulary, a count that is
            not a whole number, a request above the context, sources that are missing or not one per prompt, or a
            model that is an encoder alone.
        WorkError: the logits are not finite.

    Example:
        >>> config = jaxgpt.ModelConfig.preset("minigpt")
        >>> params = jaxgpt.init(config, key=jax.random.key(0))
        >>> result = generate(config, params, [[0, 1], [4]], max_new_tokens=1, temperature=0, key=jax.random.key(0))
        >>> [len(ids) for ids in result.ids]
        [3, 2]
    """
    sampling = Sampling(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        drawable_ids=drawable_ids,
    ).traced(config.vocab_size)
    rows = _checked_prompts(config, prompts, max_new_tokens, context_policy)
    source = _checked_sources(config, sources, len(rows), context_policy)
    execution = execution or ExecutionConfig()
    seen_BV = _seen(rows, config.vocab_size)
    going = set(range(len(rows)))
    for i in range(max_new_tokens):
        token_ids_BT, last_B = _window(rows, config.context_length)
        step_key = jax.random.fold_in(key, i)
        next_B = _next_ids(config, execution, params, token_ids_BT, source, last_B, step_key, sampling, seen_BV)
        new = np.asarray(next_B).tolist()
        if NOT_FINITE in new:
            raise WorkError(
                f"the logits of new token {i} are not finite: the parameters are damaged or diverged; use an "
                "earlier checkpoint"
            )
        for row in going:
            rows[row].append(new[row])
            seen_BV[row, new[row]] = True
        going = {row for row in going if new[row] not in stop_ids}
        if not going:
            break
    return Generation(rows)


def _checked_prompts(
    config: ModelConfig, prompts: Sequence[Sequence[int]], max_new_tokens: int, policy: ContextPolicy
) -> list[list[int]]:
    if policy not in ("stop", "crop"):
        raise RequestError(f"context_policy: expected 'stop' or 'crop', got {policy!r}")
    _check_count(max_new_tokens)
    if not isinstance(prompts, Sized) or len(prompts) == 0:
        raise RequestError(f"prompts: expected at least one list of ids, got {prompts!r}; write [[0, 1, 2]]")
    for i, prompt in enumerate(prompts):
        check_ids(i, prompt, config.vocab_size)
        total = len(prompt) + max_new_tokens
        if policy == "stop" and total > config.context_length:
            raise RequestError(
                f"prompt of {len(prompt)} tokens + {max_new_tokens} new = {total}, above the context of "
                f"{config.context_length}; ask for at most {max(config.context_length - len(prompt), 0)} new tokens, "
                "or let the context be cropped (context policy 'crop')"
            )
    return [[int(token) for token in prompt] for prompt in prompts]


def _check_count(max_new_tokens: int) -> None:
    if isinstance(max_new_tokens, bool) or not isinstance(max_new_tokens, numbers.Integral):
        raise RequestError(f"max_new_tokens: expected a whole number, got {max_new_tokens!r}; use int(...)")
    if max_new_tokens < 0:
        raise RequestError(f"max_new_tokens: expected at least 0, got {max_new_tokens}; 0 appends nothing")


def check_ids(i: int, prompt: Sequence[int], vocab_size: int, what: str = "prompt") -> None:
    """Refuse a row that is no list of ids of the vocabulary, or empty; `what` names rows of its kind."""
    try:
        ids_T = np.asarray(prompt)
    except ValueError:  # lists of several lengths in it
        ids_T = np.asarray(None)
    if ids_T.shape == (0,):
        raise RequestError(f"{what} {i} is empty; give at least one token")
    if ids_T.ndim != 1 or not np.issubdtype(ids_T.dtype, np.integer):
        raise RequestError(
            f"{what}s[{i}]: expected a list of whole numbers, got {prompt!r}; encode text with the model's "
            "tokenizer, and write one row on its own as [[0, 1, 2]]"
        )
    check_id_range(f"{what}s[{i}]", ids_T, vocab_size)


def _checked_sources(
    config: ModelConfig, sources: Sequence[Sequence[int]] | None, prompts: int, policy: ContextPolicy
) -> dict[str, np.ndarray]:
    """Return the sources as arguments of `apply`: padded rows and their mask."""
    if config.family == "encoder":
        raise RequestError("an encoder does not continue text; let it fill in masked tokens with jaxgpt.fill")
    if config.family != "encoder_decoder":
        if sources is not None:
            raise RequestError(f"sources: a model of family {config.family} reads none; leave them out")
        return {}
    if policy == "crop":
        raise RequestError("context_policy 'crop' would cut off a target's start token; use 'stop'")
    if sources is None or len(sources) != prompts:
        got = "none" if sources is None else f"{len(sources)} sources"
        raise RequestError(f"sources: expected one list of ids for each of the {prompts} prompts, got {got}")
    for i, source in enumerate(sources):
        check_ids(i, source, config.vocab_size, "source")
        if len(source) > config.context_length:
            raise RequestError(
                f"source {i} has {len(source)} tokens, above the context of {config.context_length}; shorten it"
            )
    source_ids_BS, mask_BS = padded(sources, config.context_length)
    return {"source_ids_BS": source_ids_BS, "source_mask_BS": mask_BS}


def padded(rows: Sequence[Sequence[int]], context_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows' ids, zeros behind them, and true where a row has an id.

    They are padded to a power of two: few widths mean few compilations.
    """
    longest = max(len(row) for row in rows)
    width = min(max(1 << (longest - 1).bit_length(), _SMALLEST_WIDTH), context_length)
    ids = np.zeros((len(rows), width), np.int32)
    lengths = np.array([len(row) for row in rows])
    is_real = np.arange(width) < lengths[:, None]
    ids[is_real] = np.concatenate([np.asarray(row, np.int32) for row in rows])
    return ids, is_real


def _seen(rows: list[list[int]], vocab_size: int) -> np.ndarray:
    """Return true for the ids that each row has."""
    seen_BV = np.zeros((len(rows), vocab_size), bool)
    for seen_V, row in zip(seen_BV, rows, strict=True):
        seen_V[row] = True
    return seen_BV


def _window(rows: list[list[int]], context_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the last `context_length` ids of each row, left-aligned, and the index of each row's last id.

    Under the causal mask no id sees the padding that follows it.
    """
    token_ids_BT, is_real_BT = padded([row[-context_length:] for row in rows], context_length)
    return token_ids_BT, is_real_BT.sum(axis=1, dtype=np.int32) - 1


@jax.jit
def _next_ids(
    config: ModelConfig,
    execution: ExecutionConfig,
    params: Mapping[str, Any],
    token_ids_BT: jax.Array,
    source: Mapping[str, jax.Array],
    last_B: jax.Array,
    key: jax.Array,
    sampling: Traced,
    seen_BV: jax.Array,
) -> jax.Array:
    logits_BTV = apply(config, params, token_ids_BT, **source, execution=execution)
    last_BV = jnp.take_along_axis(logits_BTV, last_B[:, None, None], axis=1)[:, 0]
    return choose(last_BV, jnp.broadcast_to(key, last_B.shape), sampling, seen_BV)
