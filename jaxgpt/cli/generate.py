"""`jaxgpt generate`: continue a prompt with a trained model."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from jaxgpt.config import RequestError

from .models import TOKENIZER_HELP, tokenizer_for, warn
from .parser import Parser, number, seed, whole_number

if TYPE_CHECKING:
    from jaxgpt.data.tokenizer import Tokenizer


def main(arguments: list[str]) -> int:
    """Run the sub-command."""
    options = _parse(arguments)

    import jax

    from jaxgpt.generation.generate import generate
    from jaxgpt.interop.opening import open_model

    model = open_model(options.run, warn)
    tokenizer = tokenizer_for(model.config, model.tokenizer, options.tokenizer)
    if tokenizer is None:
        raise RequestError(
            f"{options.run} holds no tokenizer; name its file or folder with --tokenizer, or use jaxgpt.generate "
            "with ids from Python"
        )
    prompts = _encode(options, tokenizer)
    new = options.max_new_tokens
    result = generate(
        model.config,
        model.params,
        prompts,
        max_new_tokens=_room(model.config.context_length, prompts) if new is None else new,
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        key=jax.random.key(options.seed),
        context_policy=options.context_policy,
        execution=model.execution,
    )
    _print(model.step, prompts, result.ids, tokenizer, as_json=options.json)
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(prog="jaxgpt generate", description="Continue a prompt with a trained model.")
    parser.add_argument("run", metavar="RUN", help="a run directory, a Hugging Face folder or a llama2.c file")
    parser.add_argument("--tokenizer", metavar="PATH", help=TOKENIZER_HELP)
    parser.add_argument(
        "--prompt", action="append", help="text to continue; may be given several times (default: a line break)"
    )
    parser.add_argument(
        "--max-new-tokens", type=whole_number, help="tokens to append (default: what the context holds)"
    )
    parser.add_argument("--temperature", type=number, default=1.0, help="0 takes the most likely token (default: 1)")
    parser.add_argument("--top-k", type=whole_number, help="draw among the k most likely tokens (default: all)")
    parser.add_argument(
        "--top-p", type=number, help="draw among the fewest tokens that reach this probability (default: all)"
    )
    parser.add_argument("--seed", type=seed, default=0, help="seed of the draws (default: 0)")
    parser.add_argument(
        "--context-policy",
        choices=("stop", "crop"),
        default="stop",
        help="stop refuses to outgrow the context; crop lets the model see its last tokens only (default: stop)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print step, prompts, texts and ids as JSON (default: the texts)"
    )
    return parser.parse(arguments)


def _encode(options: argparse.Namespace, tokenizer: Tokenizer) -> list[list[int]]:
    """Return the prompts' ids; the default prompt is only for models that know a line break."""
    if options.prompt is not None:
        return [tokenizer.encode(prompt).tolist() for prompt in options.prompt]
    try:
        return [tokenizer.encode("\n").tolist()]
    except RequestError:
        raise RequestError("this model knows no line break to start from; give a --prompt") from None


def _room(context_length: int, prompts: list[list[int]]) -> int:
    """Return how many tokens fit behind the longest prompt; none fitting is refused, not answered by silence."""
    longest = max(len(row) for row in prompts)
    if longest >= context_length:
        raise RequestError(
            f"a prompt of {longest} tokens fills the context of {context_length}; shorten it, or give "
            "--context-policy crop and --max-new-tokens"
        )
    return context_length - longest


def _print(
    step: int, prompts: list[list[int]], results: list[list[int]], tokenizer: Tokenizer, *, as_json: bool
) -> None:
    texts = [tokenizer.decode(row) for row in results]
    if not as_json:
        print("\n---\n".join(texts))
        return
    rows = [
        {"prompt": tokenizer.decode(prompt), "text": text, "ids": row}
        for prompt, text, row in zip(prompts, texts, results, strict=True)
    ]
    print(json.dumps({"step": step, "results": rows}, ensure_ascii=False))
