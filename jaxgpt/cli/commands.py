"""Tables of commands: the one of the program, and those of a sub-command that has sub-commands of its own."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from jaxgpt.config import RequestError, nearest

from .parser import Parser


def listed(commands: Mapping[str, str]) -> str:
    """Return the lines of a help text that name each command and what it does.

    >>> listed({"train": "train a GPT"})
    '  train     train a GPT'
    """
    return "\n".join(f"  {name:<10}{summary}" for name, summary in commands.items())


def run_command(commands: Mapping[str, str], arguments: list[str], *, parent: str = "") -> int:
    """Run the command that the first of `arguments` names, and return its exit code.

    Args:
        commands: {name: summary}; the command `name` is `main` of the module jaxgpt.cli.`name`.
        arguments: the command's name, and its own arguments.
        parent: the command that these belong to; its module's name stands before theirs.

    Raises:
        RequestError: a command that the table does not have, with the nearest one.
    """
    name = arguments[0]
    if name not in commands:
        what = f"{parent} command" if parent else "command"
        raise RequestError(f"unknown {what} {name!r}{nearest(name, commands)} (commands: {', '.join(commands)})")
    module = f"{parent}_{name}" if parent else name
    return import_module(f"jaxgpt.cli.{module}").main(arguments[1:])


def run_group(parent: str, description: str, commands: Mapping[str, str], arguments: list[str]) -> int:
    """Run one of the commands that belong to `jaxgpt PARENT`; without one, say which there are.

    Raises:
        RequestError: an unknown command or option.
    """
    if arguments and not arguments[0].startswith("-"):
        return run_command(commands, arguments, parent=parent)
    parser = Parser(
        prog=f"jaxgpt {parent}",
        usage=f"jaxgpt {parent} COMMAND [options]",
        description=description,
        epilog=f"commands:\n{listed(commands)}\n\n`jaxgpt {parent} COMMAND --help` names every option.",
    )
    parser.parse(arguments)
    parser.print_help()
    return 0
