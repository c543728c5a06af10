"""`jaxgpt data`: what prepares text for training, each in a file of its own named `data_...`."""

from __future__ import annotations

from .commands import listed, run_command
from .parser import Parser

COMMANDS = {
    "tokenizer": "learn a byte-level BPE from a text",
}


def main(arguments: list[str]) -> int:
    """Run one of the commands; without one, say which there are.

    Raises:
        RequestError: an unknown command or option.
    """
    if arguments and not arguments[0].startswith("-"):
        return run_command(COMMANDS, arguments, parent="data")
    parser = Parser(
        prog="jaxgpt data",
        usage="jaxgpt data COMMAND [options]",
        description="Prepare text for training.",
        epilog=f"commands:\n{listed(COMMANDS)}\n\n`jaxgpt data COMMAND --help` names every option.",
    )
    parser.parse(arguments)
    parser.print_help()
    return 0
