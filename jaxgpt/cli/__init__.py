"""The command line: a table of sub-commands, each in a file of its own that is imported when it is called."""

from __future__ import annotations

import os
import sys
import traceback

from jaxgpt import __version__
from jaxgpt.config import JaxgptError

from .commands import listed, run_command

COMMANDS = {
    "train": "train a GPT, or continue a run",
    "generate": "continue a prompt with a trained model",
    "eval": "measure a trained model on a text",
    "inspect": "list what a run holds, and what differs between two",
    "plot": "draw the loss curves of runs into a picture",
    "params": "count a model's parameters bucket by bucket",
    "import": "turn a Hugging Face folder or a llama2.c file into a run directory",
    "export": "write a model as a folder that Hugging Face transformers opens",
    "data": "learn a tokenizer from a text, or encode texts into a token file",
    "bench": "measure speed: of attention compiled and eager, of generation",
    "lesson": "the course's worked example and exercises, computed by the real modules",
}


def usage() -> str:
    """Return what `jaxgpt --help` prints."""
    return "\n".join(
        [
            "usage: jaxgpt COMMAND [options]",
            "",
            "A GPT in JAX and Flax Linen that one can check by hand.",
            "",
            "commands:",
            listed(COMMANDS),
            "",
            "`jaxgpt COMMAND --help` names every option. `--debug` with any command shows a failure's traceback,",
            "`jaxgpt --version` the version.",
        ]
    )


def run(arguments: list[str]) -> int:
    """Run one command line (without the program's name) and return its exit code; errors are raised."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return 0
    if arguments[0] == "--version":
        print(f"jaxgpt {__version__}")
        return 0
    return run_command(COMMANDS, arguments)


def main(arguments: list[str] | None = None) -> int:
    """The program `jaxgpt`: 0 done, 1 the work failed, 2 the request was wrong."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    debug = "--debug" in arguments
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that cannot show a character shows its code
    try:
        return run([argument for argument in arguments if argument != "--debug"])
    except JaxgptError as error:
        if debug:
            traceback.print_exc()
        print(f"jaxgpt: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("jaxgpt: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader has seen enough
        return 0
    finally:
        _flush()


def _flush() -> None:
    """Write out what was printed; where the reader has left, drop it, or Python would fail once more at exit."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
