"""`jaxgpt bench`: measure speed, each subject in a file of its own named `bench_...`."""

from __future__ import annotations

from .commands import listed, run_command
from .parser import Parser

COMMANDS = {
    "attention": "compiled against eager attention, on one device and on all",
}


def main(arguments: list[str]) -> int:
    """Run one of the commands; without one, say which there are.

    Raises:
        RequestError: an unknown command or option.
    """
    if arguments and not arguments[0].startswith("-"):
        return run_command(COMMANDS, arguments, parent="bench")
    parser = Parser(
        prog="jaxgpt bench",
        usage="jaxgpt bench COMMAND [options]",
        description="Measure speed, against float64 first.",
        epilog=f"commands:\n{listed(COMMANDS)}\n\n`jaxgpt bench COMMAND --help` names every option.",
    )
    parser.parse(arguments)
    parser.print_help()
    return 0
