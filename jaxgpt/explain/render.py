"""The lesson on a page of 100 columns; colours only where a terminal shows it."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from jaxgpt.training.plain import PlainConsole

from .steps import Fact, Lesson, Number, Part, Step, Verdict

PAGE_WIDTH = 100
DECIMALS = 6
_INDENT = " " * 4
_GAP = 2  # spaces between columns
_SIGNS: dict[Verdict, tuple[str, str]] = {
    "agrees": ("=", "green"),
    "misprint": ("*", "yellow"),
    "differs": ("!", "red"),
}

_LEGEND = (
    "Under each computed number stands the one the course prints:",
    "  = it agrees within half a unit of its last digit   * a misprint of the course   ! it differs",
    "Axes: B prompts, T positions (queries), S positions (keys), C features of the stream, H heads,",
    "      D features of a head, F hidden units, V vocabulary; N numbers or rows of an exercise",
)


def page_console() -> Console:
    """Return a console on stdout: plain and 100 columns wide unless it is a terminal."""
    console = PlainConsole()
    return PlainConsole(width=min(console.width, PAGE_WIDTH) if console.is_terminal else PAGE_WIDTH)


def print_lesson(lesson: Lesson, console: Console) -> None:
    """Print every part, then the misprints and the count of verdicts."""
    for line in _LEGEND:
        console.print(Text(line, style="dim"))
    for part in lesson.parts:
        _print_part(part, console)
    _print_misprints(lesson, console)
    console.print()
    for line in _summary_lines(lesson):
        console.print(Text(line, style="bold"))


def _print_part(part: Part, console: Console) -> None:
    _print_title(part.title, console)
    for number, step in enumerate(part.steps, start=1):
        _print_step(number, step, console)


def _print_title(title: str, console: Console) -> None:
    console.print()
    console.print(Text(title, style="bold"))
    console.print("=" * len(title))


def _print_step(number: int, step: Step, console: Console) -> None:
    heading = Text(f"{number:>2}  ").append(step.name, "bold").append(f"   {step.shape}", "cyan")
    if step.trace_name is not None:
        heading.append(f"   {step.trace_name}", "dim")
    console.print()
    console.print(heading)
    for line in (Text(step.sentence), *_table(step), *map(_fact, step.facts)):
        console.print(Text(_INDENT).append_text(line))


def _table(step: Step) -> Iterator[Text]:
    """Yield a heading line, then each row, with the printed numbers under the computed ones."""
    cells = [("", [Text(name, "dim") for name in step.columns])]
    for row in step.rows:
        cells.append((row.label, [Text(computed_text(number.computed)) for number in row.numbers]))
        if any(number.verdict for number in row.numbers):
            cells.append(("  course", [_printed_text(number) for number in row.numbers]))
    label_width = max(len(label) for label, _ in cells)
    widths = [max(map(len, column)) for column in zip(*(texts for _, texts in cells), strict=True)]
    for label, texts in cells:
        line = Text(label.ljust(label_width), "dim" if label == "  course" else "")
        for text, width in zip(texts, widths, strict=True):
            line.append(" " * (_GAP + width - len(text))).append_text(text)
        line.rstrip()
        yield line


def computed_text(value: float) -> str:
    """Return a number as the page shows it: whole numbers as they are, others signed, with six decimals.

    Example:
        >>> computed_text(124439808), computed_text(0.25)
        ('124,439,808', ' 0.250000')
    """
    return f"{value:,}" if isinstance(value, int) else f"{value: .{DECIMALS}f}"


def _printed_text(number: Number) -> Text:
    """Write the verdict's sign and the printed number, with its decimals under the computed ones."""
    if number.printed is None or number.verdict is None:
        return Text("")
    sign, colour = _SIGNS[number.verdict]
    if isinstance(number.computed, int):
        return Text(f"{sign} {number.printed}", colour)
    digits = number.printed if number.printed.startswith("-") else f" {number.printed}"
    whole, point, decimals = digits.partition(".")
    return Text(f"{sign} {whole}{point or ' '}{decimals.ljust(DECIMALS)}", colour)


def _fact(fact: Fact) -> Text:
    if fact.holds:
        return Text("holds   ", "green").append(fact.statement, "default")
    return Text("NOT SO  ", "red").append(fact.statement, "default")


def _print_misprints(lesson: Lesson, console: Console) -> None:
    misprints = lesson.printed_numbers("misprint")
    if not misprints:
        return
    _print_title("Misprints of the course", console)
    for step, row, column, number in misprints:
        if number.misprint is not None:
            console.print(Text(f"{step}, {row}, {column}", "bold"))
            console.print(f"    printed {number.printed}, exactly {number.misprint.exact:.7f}")
            console.print(f"    {number.misprint.reason}")


def _summary_lines(lesson: Lesson) -> tuple[str, ...]:
    count = lesson.counts()
    return (
        f"{count['printed']} printed numbers: {count['agree']} agree, {count['misprints']} misprints of the "
        f"course, {count['differ']} differ.",
        f"{count['statements']} statements: {count['statements_that_hold']} hold.",
    )
