"""A run's validation losses so far: the best of them, and whether they have begun to rise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxgpt.runs.metrics import read_metrics
from jaxgpt.runs.record import best_step


class Validation(NamedTuple):
    """The whole validation split's loss at a step, in nats per token."""

    step: int
    loss: float


def logged_validations(metrics: Path) -> list[Validation]:
    """Return what a run's `metrics.jsonl` holds of validations; nothing where there is no such file yet."""
    return validations(read_metrics(metrics)) if metrics.exists() else []


def validations(lines: Sequence[Mapping[str, Any]]) -> list[Validation]:
    """Return the validations among the lines of a `metrics.jsonl`.

    >>> validations([{"step": 1, "loss": 3.0}, {"step": 1, "validation_loss": 3.5}])
    [Validation(step=1, loss=3.5)]
    """
    return [Validation(line["step"], line["validation_loss"]) for line in lines if "validation_loss" in line]


def best_of(history: Sequence[Validation]) -> Validation | None:
    """Return the lowest, of equal ones the first, by the rule of the best checkpoint; None where none is finite.

    >>> best_of([Validation(1, 3.0), Validation(2, float("nan")), Validation(3, 2.5), Validation(4, 2.5)])
    Validation(step=3, loss=2.5)
    """
    step = best_step(dict(history))
    return next((validation for validation in history if validation.step == step), None)


def rises(history: Sequence[Validation]) -> int:
    """Return how many of the last validations in a row are each above the one before.

    >>> rises([Validation(step, loss) for step, loss in enumerate([3.0, 2.0, 2.1, 2.2])])
    2
    """
    count = 0
    while count + 1 < len(history) and history[-count - 1].loss > history[-count - 2].loss:
        count += 1
    return count


def rising_note(history: Sequence[Validation], after: int) -> str | None:
    """Return what to tell when validation has risen `after` times in a row, or 2 x, 3 x `after` times; else None.

    >>> rising_note([Validation(750, 1.4712), Validation(1000, 1.5)], 2)
    >>> print(rising_note([Validation(750, 1.4712), Validation(1000, 1.5)], 1)[:70])
    validation has risen 1 evaluation in a row since step 750 (1.4712): th
    """
    count = rises(history)
    if count == 0 or count % after:
        return None
    lowest = history[-count - 1]
    evaluations = "evaluation" if count == 1 else "evaluations"
    return (
        f"validation has risen {count} {evaluations} in a row since step {lowest.step} ({lowest.loss:.4f}): the "
        "model learns its text by heart; more text, more dropout, a smaller model or fewer steps help"
    )
