"""`jaxgpt generate`: continue a prompt, fill in masks or write targets, as the model's family does."""

from __future__ import annotations

import argparse
import json
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxgpt.config import RequestError, blamed_on, warn

from .models import TOKENIZER_HELP, tokenizer_for
from .parser import Parser, number, seed, whole_number

if TYPE_CHECKING:
    from jaxgpt.data.tokenizer import Tokenizer
    from jaxgpt.interop.opening import Opened


class Answer(NamedTuple):
    """What was asked, and what the model said to it."""

    prompt: str
    text: str
    ids: list[int]


def main(arguments: list[str]) -> int:
    """Run the sub-command."""
    options = _parse(arguments)

    from jaxgpt.interop.opening import open_model

    model = open_model(options.run, warn)
    tokenizer = tokenizer_for(model.config, model.tokenizer, options.tokenizer)
    if tokenizer is None:
        raise RequestError(
            f"{options.run} holds no tokenizer; name its file or folder with --tokenizer, or use jaxgpt.generate "
            "with ids from Python"
        )
    _refuse_what_means_nothing(options, model.config.family)
    answers = _ANSWERS[model.config.family](options, model, tokenizer)
    _print(model.step, answers, as_json=options.json)
    return 0


def _sampling(options: argparse.Namespace, temperature: float) -> dict[str, Any]:
    """Return the arguments of `generate` that say how to draw; `temperature` is the family's own default."""
    from jaxgpt.ops.keys import random_key

    return {
        "temperature": temperature if options.temperature is None else options.temperature,
        "top_k": options.top_k,
        "top_p": options.top_p,
        "key": random_key(options.seed),
    }


def _continue(options: argparse.Namespace, model: Opened, tokenizer: Tokenizer) -> list[Answer]:
    """A decoder goes on with the prompt."""
    from jaxgpt.generation.generate import generate

    prompts = _encode(options, tokenizer)
    new, special = options.max_new_tokens, tokenizer.special_ids
    result = generate(
        model.config,
        model.params,
        prompts,
        max_new_tokens=_room(model.config.context_length, prompts) if new is None else new,
        stop_ids={special["eos"]} if "eos" in special else (),
        drawable_ids=tokenizer.vocab_size,
        context_policy=options.context_policy or "stop",
        execution=model.execution,
        **_sampling(options, 1.0),
    )
    return [
        Answer(_between_ends(prompt, tokenizer), _between_ends(ids, tokenizer), ids)
        for prompt, ids in zip(prompts, result.ids, strict=True)
    ]


def _between_ends(ids: list[int], tokenizer: Tokenizer) -> str:
    """Return the text of `ids` without the start token before it and the end token behind it."""
    special = tokenizer.special_ids
    first = int(ids[:1] == [special.get("bos")])
    behind = len(ids) - (ids[first:][-1:] == [special.get("eos")])
    return tokenizer.decode(ids[first:behind])


def _fill(options: argparse.Namespace, model: Opened, tokenizer: Tokenizer) -> list[Answer]:
    """An encoder fills in the mask tokens of the prompt."""
    from jaxgpt.data.tokenizer.special import encode_with_special, special_id
    from jaxgpt.generation.fill import fill

    if options.prompt is None:
        raise RequestError("an encoder fills in masked tokens; give a --prompt with <mask> where one is hidden")
    mask_id, rows = special_id(tokenizer, "mask"), []
    name = tokenizer.decode([mask_id])
    for prompt in options.prompt:
        with blamed_on(f"--prompt {shlex.quote(prompt)}"):
            rows.append(encode_with_special(tokenizer, prompt, "mask"))
            if mask_id not in rows[-1]:
                raise RequestError(f"it has no {name} where a token is hidden, so there is nothing to fill in")
    filled = fill(
        model.config, model.params, rows, mask_id=mask_id, execution=model.execution, **_sampling(options, 0.0)
    )
    return [Answer(prompt, tokenizer.decode(ids), ids) for prompt, ids in zip(options.prompt, filled, strict=True)]


def _write(options: argparse.Namespace, model: Opened, tokenizer: Tokenizer) -> list[Answer]:
    """An encoder_decoder writes the target of the source; a prompt is how it begins."""
    from jaxgpt.generation.targets import write_targets

    if options.source is None:
        raise RequestError("an encoder_decoder writes what belongs to a source; give a --source")
    if options.prompt is not None and len(options.prompt) != len(options.source):
        raise RequestError(
            f"{len(options.prompt)} prompts for {len(options.source)} sources; give one --prompt (how the target "
            "begins) for each --source, or none"
        )
    targets = write_targets(
        model.config,
        model.params,
        tokenizer,
        [_encode_text("--source", source, tokenizer) for source in options.source],
        beginnings=options.prompt and [_encode_text("--prompt", prompt, tokenizer) for prompt in options.prompt],
        max_new_tokens=options.max_new_tokens,
        execution=model.execution,
        **_sampling(options, 0.0),
    )
    return [Answer(source, tokenizer.decode(ids), ids) for source, ids in zip(options.source, targets, strict=True)]


_ANSWERS = {"decoder": _continue, "encoder": _fill, "encoder_decoder": _write}
_MOST = 256  # new tokens, where no number is given: the contexts of many models hold a book
_MEANS_NOTHING = {
    "decoder": ("source",),
    "encoder": ("source", "max_new_tokens", "context_policy", "bos"),
    "encoder_decoder": ("context_policy", "bos"),
}


def _refuse_what_means_nothing(options: argparse.Namespace, family: str) -> None:
    for name in _MEANS_NOTHING[family]:
        if getattr(options, name) is not None and getattr(options, name) is not False:
            raise RequestError(
                f"--{name.replace('_', '-')} means nothing for a model of family {family}; leave it out"
            )


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="jaxgpt generate", description="Continue a prompt, fill in masks, or write the target of a source."
    )
    parser.add_argument("run", metavar="RUN", help="a run directory, a Hugging Face folder or a llama2.c file")
    parser.add_argument("--tokenizer", metavar="PATH", help=TOKENIZER_HELP)
    parser.add_argument(
        "--prompt",
        action="append",
        help="text to continue, with an encoder text with <mask> in it, with an encoder_decoder how the target "
        "begins; may be given several times (default: a line break)",
    )
    parser.add_argument(
        "--source", action="append", help="what an encoder_decoder reads; may be given several times (default: none)"
    )
    parser.add_argument(
        "--bos", action="store_true", help="begin each prompt with the tokenizer's start token (default: do not)"
    )
    parser.add_argument(
        "--max-new-tokens",
        type=whole_number,
        help=f"tokens to append, unless an end token comes sooner (default: what the context holds, with a decoder "
        f"at most {_MOST})",
    )
    parser.add_argument(
        "--temperature", type=number, help="0 takes the most likely token (default: 1 for a decoder, else 0)"
    )
    parser.add_argument("--top-k", type=whole_number, help="draw among the k most likely tokens (default: all)")
    parser.add_argument(
        "--top-p", type=number, help="draw among the fewest tokens that reach this probability (default: all)"
    )
    parser.add_argument("--seed", type=seed, default=0, help="seed of the draws (default: 0)")
    parser.add_argument(
        "--context-policy",
        choices=("stop", "crop"),
        help="stop refuses to outgrow the context; crop lets the model see its last tokens only (default: stop)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print step, prompts, texts and ids as JSON (default: the texts)"
    )
    return parser.parse(arguments)


def _encode(options: argparse.Namespace, tokenizer: Tokenizer) -> list[list[int]]:
    """Return the prompts' ids; the default prompt is only for models that know a line break, or a start token."""
    start = []
    if options.bos:
        if "bos" not in tokenizer.special_ids:
            raise RequestError("--bos: this model's tokenizer has no start token; leave it out")
        start = [tokenizer.special_ids["bos"]]
    if options.prompt is not None:
        return [start + _encode_text("--prompt", prompt, tokenizer) for prompt in options.prompt]
    if start:
        return [start]
    try:
        return [tokenizer.encode("\n").tolist()]
    except RequestError:
        raise RequestError("this model knows no line break to start from; give a --prompt") from None


def _encode_text(option: str, text: str, tokenizer: Tokenizer) -> list[int]:
    with blamed_on(f"{option} {shlex.quote(text)}"):
        return tokenizer.encode(text).tolist()


def _room(context_length: int, prompts: list[list[int]]) -> int:
    """Return how many new tokens there are by default; none fitting is refused, not answered by silence."""
    longest = max(len(row) for row in prompts)
    if longest >= context_length:
        raise RequestError(
            f"a prompt of {longest} tokens fills the context of {context_length}; shorten it, or give "
            "--context-policy crop and --max-new-tokens"
        )
    return min(context_length - longest, _MOST)


def _print(step: int, answers: list[Answer], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"step": step, "results": [answer._asdict() for answer in answers]}, ensure_ascii=False))
    else:
        print("\n---\n".join(answer.text for answer in answers))
