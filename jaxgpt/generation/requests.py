"""What is asked of generation, checked before anything compiles."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable, Collection, Iterable, Sequence, Sized
from typing import Any, Literal

import numpy as np

from jaxgpt.config import ModelConfig, RequestError
from jaxgpt.model.inputs import check_id_range

from .lookup import PromptLookup
from .sampling import Sampling
from .widths import width_of

ContextPolicy = Literal["stop", "crop"]
Decode = Callable[[list[int]], str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class GenerationRequest:
    """What a caller wants of each prompt.

    Attributes:
        max_new_tokens: Tokens to append to each, at most.
        n: How many continuations each prompt gets.
        sampling: How a token is drawn.
        stop_ids: Ids behind which a row ends.
        stop_strings: Texts behind which a row ends, in what its new ids add to the text of the prompt.
        decode: Turns ids into text.
        context_policy: What happens at the end of the context.
        lookup: How to draft tokens from the text itself, or None.
        logprobs: Whether each new token's log-probability is wanted.
    """

    max_new_tokens: int
    n: int = 1
    sampling: Sampling = Sampling()
    stop_ids: Collection[int] = ()
    stop_strings: Sequence[str] = ()
    decode: Decode | None = None
    context_policy: ContextPolicy = "stop"
    lookup: PromptLookup | None = None
    logprobs: bool = False

    def __post_init__(self) -> None:
        if self.context_policy not in ("stop", "crop"):
            raise RequestError(f"context_policy: expected 'stop' or 'crop', got {self.context_policy!r}")
        for name, least in (("max_new_tokens", 0), ("n", 1)):
            _check_count(name, getattr(self, name), least)
            object.__setattr__(self, name, int(getattr(self, name)))
        object.__setattr__(self, "stop_ids", _checked_stop_ids(self.stop_ids))
        object.__setattr__(self, "stop_strings", _checked_stop_strings(self.stop_strings))
        if self.stop_strings and self.decode is None:
            raise RequestError("stop_strings are looked for in text; pass decode=, the tokenizer's")
        if self.lookup is not None:
            self._check_lookup()

    def _check_lookup(self) -> None:
        """Refuse what drafted tokens cannot be checked against exactly."""
        if not isinstance(self.lookup, PromptLookup):
            raise RequestError(f"lookup: expected a jaxgpt.PromptLookup or None, got {self.lookup!r}")
        faults = {
            "a temperature above 0": self.sampling.temperature != 0,
            "a repetition penalty": self.sampling.repetition_penalty not in (None, 1),
            "context_policy 'crop'": self.context_policy == "crop",
        }
        for what, there in faults.items():
            if there:
                raise RequestError(f"lookup drafts tokens for plain greedy choices; it does not go with {what}")


def _checked_stop_ids(stop_ids: Collection[int]) -> frozenset[int]:
    ids = list(stop_ids) if isinstance(stop_ids, Iterable) else [stop_ids]
    wrong = [token for token in ids if isinstance(token, bool) or not isinstance(token, numbers.Integral)]
    if wrong or not isinstance(stop_ids, Iterable):
        got = wrong[0] if isinstance(stop_ids, Iterable) else stop_ids
        raise RequestError(f"stop_ids: expected whole numbers in a set or a list, got {got!r}")
    return frozenset(int(token) for token in ids)


def _checked_stop_strings(stop_strings: Sequence[str]) -> tuple[str, ...]:
    strings = (None,) if isinstance(stop_strings, str) else tuple(stop_strings)
    if not all(isinstance(string, str) and string for string in strings):
        raise RequestError(f"stop_strings: expected a list of texts that are not empty, got {stop_strings!r}")
    return strings


def check_request(config: ModelConfig, request: GenerationRequest) -> None:
    """Refuse what a model has not: stop ids or drawable ids outside the vocabulary, a draft above the context."""
    request.sampling.traced(config.vocab_size)
    check_id_range("stop_ids", np.array(sorted(request.stop_ids), np.int64), config.vocab_size)
    if request.lookup is not None and request.lookup.draft >= config.context_length:
        raise RequestError(
            f"lookup: a draft of {request.lookup.draft} tokens behind another does not fit into the context of "
            f"{config.context_length}; draft fewer"
        )


def check_prompts(
    config: ModelConfig, prompts: Sequence[Sequence[int]], request: GenerationRequest
) -> list[list[int]]:
    """Return the prompts as lists of numbers.

    Raises:
        RequestError: no prompt, one that is no list of ids, or one that would outgrow the context.
    """
    if not isinstance(prompts, Sized) or len(prompts) == 0:
        raise RequestError(f"prompts: expected at least one list of ids, got {prompts!r}; write [[0, 1, 2]]")
    for i, prompt in enumerate(prompts):
        check_ids(i, prompt, config.vocab_size)
        new, total = request.max_new_tokens, len(prompt) + request.max_new_tokens
        if request.context_policy == "stop" and total > config.context_length:
            raise RequestError(
                f"prompts[{i}]: {len(prompt)} tokens + {new} new = {total}, above the context of "
                f"{config.context_length}; ask for at most {max(config.context_length - len(prompt), 0)} new tokens, "
                "or let the context be cropped (context policy 'crop')"
            )
    return [[int(token) for token in prompt] for prompt in prompts]


def _check_count(name: str, count: int, least: int) -> None:
    if isinstance(count, bool) or not isinstance(count, numbers.Integral):
        raise RequestError(f"{name}: expected a whole number, got {count!r}; use int(...)")
    if count < least:
        raise RequestError(f"{name}: expected at least {least}, got {count}")


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


def check_sources(
    config: ModelConfig, sources: Sequence[Sequence[int]] | None, prompts: int, policy: ContextPolicy
) -> dict[str, Any]:
    """Return the sources as arguments of `apply`, padded rows and their mask; none for a family that reads none."""
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
    source_ids_BS, mask_BS = padded(sources, width_of(sources, config.context_length))
    return {"source_ids_BS": source_ids_BS, "source_mask_BS": mask_BS}


def padded(rows: Sequence[Sequence[int]], width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows' ids, zeros behind them up to `width`, and true where a row has an id."""
    ids = np.zeros((len(rows), width), np.int32)
    is_real = np.arange(width) < np.array([len(row) for row in rows])[:, None]
    ids[is_real] = np.concatenate([np.asarray(row, np.int32) for row in rows])
    return ids, is_real
