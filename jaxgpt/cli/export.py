"""`jaxgpt export`: write a model as a folder that Hugging Face transformers opens."""

from __future__ import annotations

from pathlib import Path

from jaxgpt.config import warn

from .models import TOKENIZER_HELP, add_checkpoint_option, tokenizer_for
from .parser import Parser


def main(arguments: list[str]) -> int:
    """Run the sub-command."""
    parser = Parser(
        prog="jaxgpt export", description="Write a model as a folder that Hugging Face transformers opens."
    )
    parser.add_argument("run", metavar="RUN", help="a run directory, or anything else that jaxgpt opens")
    parser.add_argument("out", metavar="DIR", help="the folder to write, new or empty")
    add_checkpoint_option(parser)
    parser.add_argument("--tokenizer", metavar="PATH", help=TOKENIZER_HELP)
    options = parser.parse(arguments)

    from jaxgpt.interop.hugging_face import check_new_folder, export
    from jaxgpt.interop.opening import open_model

    check_new_folder(Path(options.out))
    opened = open_model(options.run, warn, checkpoint=options.checkpoint)
    tokenizer = tokenizer_for(opened.config, opened.tokenizer, options.tokenizer)
    print(f"read {options.run}: {opened.words(tokenizer)}")
    print(f"wrote {export(options.out, opened.config, opened.params, tokenizer, warn=warn)}")
    return 0
