"""`jaxgpt import`: turn a model that others wrote into a run directory."""

from __future__ import annotations

from pathlib import Path

from jaxgpt.config import RequestError, warn

from .models import TOKENIZER_HELP, tokenizer_for
from .parser import Parser

_DESCRIPTION = """Turn a model that others wrote into a run directory.

It reads Hugging Face folders (GPT-2, Llama, Mistral, Qwen2, Qwen3, in safetensors) and llama2.c checkpoints (.bin).
The other commands open both as they lie too; a run directory carries hashes of everything it holds.
"""


def main(arguments: list[str]) -> int:
    """Run the sub-command."""
    parser = Parser(prog="jaxgpt import", description=_DESCRIPTION)
    parser.add_argument("source", metavar="SOURCE", help="a Hugging Face folder or a llama2.c file")
    parser.add_argument("out", metavar="OUT", help="the run directory to write, new or empty")
    parser.add_argument("--tokenizer", metavar="PATH", help=TOKENIZER_HELP)
    options = parser.parse(arguments)

    from jaxgpt.interop.hugging_face import check_new_folder
    from jaxgpt.interop.opening import open_model
    from jaxgpt.runs.directory import is_run
    from jaxgpt.runs.saved import save

    if is_run(Path(options.source)):
        raise RequestError(f"{options.source} is a run directory already; copy the folder")
    check_new_folder(Path(options.out))
    opened = open_model(options.source, warn)
    tokenizer = tokenizer_for(opened.config, opened.tokenizer, options.tokenizer)
    print(f"read {options.source}: {opened.words(tokenizer)}")
    save(options.out, opened.config, opened.params, tokenizer)
    print(f"wrote {options.out}: run directory; jaxgpt generate {options.out} continues a text with it")
    return 0
