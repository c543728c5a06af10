"""The lesson as plain data, for `--json`."""

from __future__ import annotations

from typing import Any

from .steps import Lesson, Number, Step


def lesson_data(lesson: Lesson) -> dict[str, Any]:
    """Return a lesson as nested dicts and lists of plain Python values.

    Example:
        >>> list(lesson_data(Lesson(())))
        ['summary', 'parts', 'misprints', 'differences']
    """
    return {
        "summary": lesson.counts(),
        "parts": [
            {"name": part.name, "title": part.title, "steps": [_step(step) for step in part.steps]}
            for part in lesson.parts
        ],
        "misprints": [
            {"step": step, "row": row, "column": column} | _number(number)
            for step, row, column, number in lesson.printed_numbers("misprint")
        ],
        "differences": list(lesson.differences()),
    }


def _step(step: Step) -> dict[str, Any]:
    plain = {field: getattr(step, field) for field in ("name", "sentence", "shape", "trace_name")}
    return plain | {
        "columns": list(step.columns),
        "rows": [{"label": row.label, "numbers": [_number(number) for number in row.numbers]} for row in step.rows],
        "facts": [fact._asdict() for fact in step.facts],
    }


def _number(number: Number) -> dict[str, Any]:
    """Leave out what this number does not have."""
    fields = number._asdict() | {"misprint": number.misprint and number.misprint._asdict()}
    return {name: value for name, value in fields.items() if value is not None}
