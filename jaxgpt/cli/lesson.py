"""`jaxgpt lesson`: a small model followed number by number, and checked against the course that prints it."""

from __future__ import annotations

import json

from jaxgpt.config import WorkError, some

from .parser import Parser

_PARTS = ("all", "example", "exercises", "bridge")


def _parser() -> Parser:
    parser = Parser(
        prog="jaxgpt lesson",
        description="Follow two prompts through a model small enough to check by hand, computed by the modules that "
        "train, beside the numbers that the course prints.",
    )
    parser.add_argument(
        "--part",
        choices=_PARTS,
        default="all",
        help="what to show: the two-prompt example, the exercises, or the bridge from one attention head to the "
        "whole model (default: all)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the same as JSON on stdout (default: a page of text)"
    )
    return parser


def main(arguments: list[str]) -> int:
    """Print the lesson.

    Returns:
        0 when every printed number agrees or is a known misprint, and every statement holds.

    Raises:
        RequestError: an unknown option or part.
        WorkError: naming each number that differs and each statement that does not hold, after the printing.
    """
    options = _parser().parse(arguments)
    from jaxgpt.explain.as_json import lesson_data
    from jaxgpt.explain.lesson import run_lesson
    from jaxgpt.explain.render import page_console, print_lesson

    lesson = run_lesson(*(() if options.part == "all" else (options.part,)))
    if options.json:
        print(json.dumps(lesson_data(lesson), indent=2))
    else:
        print_lesson(lesson, page_console())
    _refuse_differences(lesson.differences())
    return 0


def _refuse_differences(differences: tuple[str, ...]) -> None:
    if differences:
        raise WorkError(
            f"{len(differences)} of the lesson's results differ from what was expected: "
            f"{some(differences, most=5, joint='; ')}; check that the installed jax is one this version of jaxgpt "
            "allows, and that no module of jaxgpt was changed"
        )
