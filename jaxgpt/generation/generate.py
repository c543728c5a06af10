"""The generation loop: run the model on what there is, choose a token, append it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxgpt.config import ExecutionConfig, ModelConfig, RequestError, WorkError
from jaxgpt.model.functional import apply
from jaxgpt.model.inputs import check_id_range

from .sampling import NOT_FINITE, Sampling, choose

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
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    key: jax.Array,
    context_policy: ContextPolicy = "stop",
    execution: ExecutionConfig | None = None,
) -> Generation:
    """Continue each prompt by `max_new_tokens` tokens.

    Args:
        config: The architecture.
        params: The tree that `init` gives.
        prompts: Lists of ids, of any lengths; a prompt's result does not depend on the others.
        max_new_tokens: Tokens to append to each.
        temperature, top_k, top_p: See `Sampling`; temperature 0 is greedy.
        key: A PRNG key; token i is drawn with fold_in(key, i).
        context_policy: "stop" refuses a prompt that would outgrow the context; "crop" lets the model see the last
            context_length ids only, so positions restart.
        execution: How to run.

    Returns:
        `.ids`, lists of lists, prompts included.

    Raises:
        RequestError: no prompt, an empty one, ids outside the vocabulary, or a request above the context.
        WorkError: the logits are not finite.

    Example:
        >>> config = jaxgpt.ModelConfig.preset("minigpt")
        >>> params = jaxgpt.init(config, key=jax.random.key(0))
        >>> result = generate(config, params, [[0, 1], [4]], max_new_tokens=1, temperature=0, key=jax.random.key(0))
        >>> [len(ids) for ids in result.ids]
        [3, 2]
    """
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p).traced(config.vocab_size)
    rows = _checked_prompts(config, prompts, max_new_tokens, context_policy)
    execution = execution or ExecutionConfig()
    for i in range(max_new_tokens):
        token_ids_BT, last_B = _window(rows, config.context_length)
        next_B = _next_ids(config, execution, params, token_ids_BT, last_B, jax.random.fold_in(key, i), sampling)
        for row, token in zip(rows, np.asarray(next_B).tolist(), strict=True):
            if token == NOT_FINITE:
                raise WorkError(
                    f"the logits of new token {i} are not finite: the parameters are damaged or diverged; use an "
                    "earlier checkpoint"
                )
            row.append(token)
    return Generation(rows)


def _checked_prompts(
    config: ModelConfig, prompts: Sequence[Sequence[int]], max_new_tokens: int, policy: ContextPolicy
) -> list[list[int]]:
    if policy not in ("stop", "crop"):
        raise RequestError(f"context_policy: expected 'stop' or 'crop', got {policy!r}")
    if max_new_tokens < 0:
        raise RequestError(f"max_new_tokens: expected at least 0, got {max_new_tokens}")
    if len(prompts) == 0:
        raise RequestError("no prompts: pass at least one list of ids")
    for i, prompt in enumerate(prompts):
        _check_ids(i, prompt, config.vocab_size)
        total = len(prompt) + max_new_tokens
        if policy == "stop" and total > config.context_length:
            raise RequestError(
                f"prompt of {len(prompt)} tokens + {max_new_tokens} new = {total}, above the context of "
                f"{config.context_length}; ask for at most {max(config.context_length - len(prompt), 0)} new tokens, "
                "or let the context be cropped (context policy 'crop')"
            )
    return [[int(token) for token in prompt] for prompt in prompts]


def _check_ids(i: int, prompt: Sequence[int], vocab_size: int) -> None:
    if len(prompt) == 0:
        raise RequestError(f"prompt {i} is empty; give at least one token to continue")
    ids_T = np.asarray(prompt)
    if ids_T.ndim != 1 or not np.issubdtype(ids_T.dtype, np.integer):
        raise RequestError(
            f"prompts[{i}]: expected a list of whole numbers, got {prompt!r}; encode text with the model's tokenizer"
        )
    check_id_range(f"prompts[{i}]", ids_T, vocab_size)


def _window(rows: list[list[int]], context_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the last `context_length` ids of each row, left-aligned, and the index of each row's last id.

    Rows are padded on the right to a power of two: under the causal mask no id sees what follows it, and few widths
    mean few compilations.
    """
    seen = [row[-context_length:] for row in rows]
    longest = max(len(row) for row in seen)
    width = min(max(1 << (longest - 1).bit_length(), _SMALLEST_WIDTH), context_length)
    token_ids_BT = np.zeros((len(rows), width), np.int32)
    for row_T, ids in zip(token_ids_BT, seen, strict=True):
        row_T[: len(ids)] = ids
    return token_ids_BT, np.array([len(ids) - 1 for ids in seen], np.int32)


@jax.jit
def _next_ids(
    config: ModelConfig,
    execution: ExecutionConfig,
    params: Mapping[str, Any],
    token_ids_BT: jax.Array,
    last_B: jax.Array,
    key: jax.Array,
    sampling: tuple[jax.Array, jax.Array, jax.Array],
) -> jax.Array:
    logits_BTV = apply(config, params, token_ids_BT, execution=execution)
    last_BV = jnp.take_along_axis(logits_BTV, last_B[:, None, None], axis=1)[:, 0]
    return choose(last_BV, key, *sampling)
