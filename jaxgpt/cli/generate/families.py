"""What each family of models makes of what is asked: rows of ids, what is wanted of them, and their text."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxgpt.config import RequestError
from jaxgpt.data.tokenizer.special import encode_with_special, special_id
from jaxgpt.generation.lookup import PromptLookup
from jaxgpt.generation.requests import GenerationRequest, check_prompts
from jaxgpt.generation.sampling import Sampling

from .asked import Asked
from .options import MOST

if TYPE_CHECKING:
    from jaxgpt.config import ModelConfig
    from jaxgpt.data.tokenizer import Tokenizer


class Task(NamedTuple):
    """Something to be continued, checked.

    Attributes:
        asked: What was asked, in words.
        prompts: What each row begins with.
        sources: What an encoder_decoder reads; None with a decoder.
        request: What is wanted of each.
        text: The text of all ids of a row.
    """

    asked: list[Asked]
    prompts: list[list[int]]
    sources: list[list[int]] | None
    request: GenerationRequest
    text: Callable[[list[int]], str]


def decoder_task(
    options: argparse.Namespace, asked: Sequence[Asked], config: ModelConfig, tokenizer: Tokenizer
) -> Task:
    """A decoder goes on with each prompt."""
    start = _start(options, tokenizer)
    asked = [_with_prompt(one, bool(start), tokenizer) for one in asked]
    for one in asked:
        if one.source is not None:
            raise RequestError(f"{one.line}: a source means nothing for a model of family decoder; leave it out")
    prompts = [start + _ids(one, "prompt", tokenizer, may_be_empty=bool(start)) for one in asked]

    request = _request(options, asked, prompts, config, tokenizer, most=MOST)
    return Task(asked, prompts, None, request, _text_of(tokenizer))


def encoder_decoder_task(
    options: argparse.Namespace, asked: Sequence[Asked], config: ModelConfig, tokenizer: Tokenizer
) -> Task:
    """An encoder_decoder writes the target of each source; a prompt is how it begins."""
    for one in asked:
        if one.source is None:
            raise one.refused("an encoder_decoder writes what belongs to a source", "give a --source", "source")
    bos_id = special_id(tokenizer, "bos")
    sources = [_ids(one, "source", tokenizer) for one in asked]
    for one, source in zip(asked, sources, strict=True):
        with one.blamed("source"):
            _check_length(source, config)
    prompts = [
        [bos_id, *([] if one.prompt is None else _ids(one, "prompt", tokenizer, may_be_empty=True))] for one in asked
    ]
    special_id(tokenizer, "eos")
    request = _request(options, asked, prompts, config, tokenizer)
    return Task(list(asked), prompts, sources, request, _text_of(tokenizer))


def masked_rows(asked: Sequence[Asked], config: ModelConfig, tokenizer: Tokenizer) -> tuple[list[list[int]], int]:
    """An encoder fills in the mask tokens of each prompt: return their ids, and that of the mask."""
    mask_id, rows = special_id(tokenizer, "mask"), []
    name = tokenizer.decode([mask_id])
    for one in asked:
        if one.prompt is None:
            how = f"give a --prompt with {name} where one is hidden"
            raise one.refused("an encoder fills in masked tokens", how, "prompt")
        if one.source is not None:
            raise RequestError(f"{one.line}: a source means nothing for a model of family encoder; leave it out")
        with one.blamed("prompt"):
            rows.append(encode_with_special(tokenizer, one.prompt, "mask"))
            if mask_id not in rows[-1]:
                raise RequestError(f"it has no {name} where a token is hidden, so there is nothing to fill in")
            _check_length(rows[-1], config)
    return rows, mask_id


def sampling_options(options: argparse.Namespace, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return how to draw, of what every family knows: among the ids that the tokenizer has."""
    draw = {"temperature": options.temperature, "top_k": options.top_k, "top_p": options.top_p}
    return draw | {"drawable_ids": tokenizer.vocab_size}


def _request(
    options: argparse.Namespace,
    asked: Sequence[Asked],
    prompts: Sequence[list[int]],
    config: ModelConfig,
    tokenizer: Tokenizer,
    *,
    most: int | None = None,
) -> GenerationRequest:
    """Return what is wanted of the prompts, each of them checked against the context."""
    new, special = options.max_new_tokens, tokenizer.special_ids
    request = GenerationRequest(
        max_new_tokens=_room(config, asked, prompts, most) if new is None else new,
        n=1 if options.n is None else options.n,
        sampling=Sampling(
            **sampling_options(options, tokenizer),
            min_p=options.min_p,
            repetition_penalty=options.repetition_penalty,
        ),
        stop_ids={special["eos"]} if "eos" in special else (),
        stop_strings=options.stop or (),
        decode=_text_of(tokenizer),
        context_policy=options.context_policy or "stop",
        lookup=None if options.lookup is None else PromptLookup(draft=options.lookup),
        logprobs=options.logprobs,
    )
    for one, prompt in zip(asked, prompts, strict=True):
        with one.blamed("prompt"):
            check_prompts(config, [prompt], request)
    return request


def _room(config: ModelConfig, asked: Sequence[Asked], prompts: Sequence[list[int]], most: int | None) -> int:
    """Return how many new tokens there are by default; none fitting is refused, not answered by silence."""
    for one, prompt in zip(asked, prompts, strict=True):
        if len(prompt) >= config.context_length:
            with one.blamed("prompt"):
                raise RequestError(
                    f"a prompt of {len(prompt)} tokens fills the context of {config.context_length}; shorten it"
                    + (", or give --context-policy crop and --max-new-tokens" if config.family == "decoder" else "")
                )
    room = config.context_length - max(map(len, prompts))
    return room if most is None else min(room, most)


def _start(options: argparse.Namespace, tokenizer: Tokenizer) -> list[int]:
    """Return what --bos puts before each prompt."""
    if not options.bos:
        return []
    if "bos" not in tokenizer.special_ids:
        raise RequestError("--bos: this model's tokenizer has no start token; leave it out")
    return [tokenizer.special_ids["bos"]]


def _with_prompt(one: Asked, started: bool, tokenizer: Tokenizer) -> Asked:
    """Return what is asked with the default prompt, for models that know a line break or were given a start token."""
    if one.prompt is not None or one.source is not None:
        return one
    if started:
        return one._replace(prompt="")
    try:
        tokenizer.encode("\n")
    except RequestError:
        raise RequestError("this model knows no line break to start from; give a --prompt") from None
    return one._replace(prompt="\n")


def _ids(one: Asked, field: str, tokenizer: Tokenizer, *, may_be_empty: bool = False) -> list[int]:
    with one.blamed(field):
        ids = tokenizer.encode(getattr(one, field)).tolist()
        if not ids and not may_be_empty:
            raise RequestError("it is empty; give at least one token")
    return ids


def _check_length(ids: list[int], config: ModelConfig) -> None:
    if len(ids) > config.context_length:
        raise RequestError(f"it has {len(ids)} tokens, above the context of {config.context_length}; shorten it")


def _text_of(tokenizer: Tokenizer) -> Callable[[list[int]], str]:
    return lambda ids: tokenizer.decode(_between_ends(ids, tokenizer))


def _between_ends(ids: list[int], tokenizer: Tokenizer) -> list[int]:
    """Return the ids without the start token before them and the end token behind them."""
    special = tokenizer.special_ids
    first = int(ids[:1] == [special.get("bos")])
    return ids[first : len(ids) - (ids[first:][-1:] == [special.get("eos")])]
