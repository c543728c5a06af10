"""`jaxgpt generate`: continue a prompt with a trained model."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from jaxgpt.config import RequestError

from .parser import Parser, number, seed, whole_number


def main(arguments: list[str]) -> int:
    """Run the sub-command."""
    parser = Parser(prog="jaxgpt generate", description="Continue a prompt with a trained model.")
    parser.add_argument("run", metavar="RUN", help="a run directory")
    parser.add_argument(
        "--prompt", action="append", help="text to continue; may be given several times (default: a line break)"
    )
    parser.add_argument(
        "--max-new-tokens", type=whole_number, default=None, help="tokens to append (default: what the context holds)"
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
    options = parser.parse(arguments)

    import jax

    from jaxgpt.generation.generate import generate
    from jaxgpt.runs.saved import load_run

    def warn(message: str) -> None:
        print(f"jaxgpt: warning: {message}", file=sys.stderr)

    config, params, tokenizer, step = load_run(Path(options.run), warn)
    if tokenizer is None:
        raise RequestError(f"{options.run} holds no tokenizer; use jaxgpt.generate with ids from Python")
    prompts = options.prompt or ["\n"]
    ids = [tokenizer.encode(prompt).tolist() for prompt in prompts]
    new = _room(config.model.context_length, ids) if options.max_new_tokens is None else options.max_new_tokens
    result = generate(
        config.model,
        params,
        ids,
        max_new_tokens=new,
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        key=jax.random.key(options.seed),
        context_policy=options.context_policy,
        execution=config.execution,
    )
    texts = [tokenizer.decode(row) for row in result.ids]
    if options.json:
        rows = [
            {"prompt": prompt, "text": text, "ids": row}
            for prompt, text, row in zip(prompts, texts, result.ids, strict=True)
        ]
        print(json.dumps({"step": step, "results": rows}, ensure_ascii=False))
    else:
        print("\n---\n".join(texts))
    return 0


def _room(context_length: int, ids: list[list[int]]) -> int:
    """Return how many tokens fit behind the longest prompt; none fitting is refused, not answered by silence."""
    longest = max(len(row) for row in ids)
    if longest >= context_length:
        raise RequestError(
            f"a prompt of {longest} tokens fills the context of {context_length}; shorten it, or give "
            "--context-policy crop and --max-new-tokens"
        )
    return context_length - longest
