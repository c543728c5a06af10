"""What a lesson consists of: steps with rows of numbers, each beside what the course prints, and statements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .printed import MISPRINTS, Misprint, printed_row

Verdict = Literal["agrees", "misprint", "differs"]
_FLOAT32_STEPS = 1e-6  # how closely a misprint's exact value must be met, relative to values above 1


def judge(computed: float, printed: str, misprint: Misprint | None = None) -> Verdict:
    """Compare a computed number with its printed form.

    It agrees within half a unit of the last printed digit. Where a misprint is listed, the computed number must
    instead be the exact value, and the printed one must indeed be further off than that half unit.

    Example:
        >>> judge(0.84134, "0.841"), judge(0.8416, "0.841")
        ('agrees', 'differs')
        >>> judge(0.2885488, "0.2886", Misprint(0.288548787, "rounded logits"))
        'misprint'
    """
    decimals = len(printed.partition(".")[2])
    agrees = abs(computed - float(printed.replace(",", ""))) <= 0.5 * 10.0**-decimals
    if misprint is None:
        return "agrees" if agrees else "differs"
    is_exact = abs(computed - misprint.exact) <= _FLOAT32_STEPS * max(1.0, abs(misprint.exact))
    return "misprint" if is_exact and not agrees else "differs"


class Number(NamedTuple):
    """One computed number; `printed` and `verdict` are None where the course prints none.

    Attributes:
        computed: A whole number, or a float.
        printed: The course's number, as text.
        verdict: How the two compare.
        misprint: The exact value and the reason, where a misprint is listed here.
    """

    computed: float
    printed: str | None = None
    verdict: Verdict | None = None
    misprint: Misprint | None = None


class Row(NamedTuple):
    """A labelled row of numbers."""

    label: str
    numbers: tuple[Number, ...]


class Fact(NamedTuple):
    """A statement in words, and whether the computed numbers bear it out."""

    statement: str
    holds: bool


class Step(NamedTuple):
    """One step: what happens, the array that results, and rows of it.

    Attributes:
        name: Its heading.
        sentence: What happens, in one sentence.
        shape: The shape with its axes, e.g. `[B,T,C] = [2,2,4]`.
        trace_name: The name this array has in the model's trace, or None where the model has none for it.
        columns: A heading per number.
        rows: The numbers.
        facts: Statements that the numbers bear out.
    """

    name: str
    sentence: str
    shape: str
    trace_name: str | None
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    facts: tuple[Fact, ...] = ()


class Part(NamedTuple):
    """A sequence of steps under one heading."""

    name: str
    title: str
    steps: tuple[Step, ...]


class Placed(NamedTuple):
    """A number that the course prints, with the place it has in the lesson."""

    step: str
    row: str
    column: str
    number: Number


class Lesson(NamedTuple):
    """The parts that were computed.

    Example:
        >>> Lesson(()).differences()
        ()
    """

    parts: tuple[Part, ...]

    def steps(self) -> Iterator[Step]:
        """Yield every step of every part."""
        for part in self.parts:
            yield from part.steps

    def printed_numbers(self, verdict: Verdict | None = None) -> tuple[Placed, ...]:
        """Return the numbers that the course prints: all of them, or those with one verdict."""
        return tuple(
            Placed(step.name, row.label, column, number)
            for step in self.steps()
            for row in step.rows
            for column, number in zip(step.columns, row.numbers, strict=True)
            if number.verdict is not None and verdict in (None, number.verdict)
        )

    def facts(self) -> tuple[Fact, ...]:
        """Return every statement."""
        return tuple(fact for step in self.steps() for fact in step.facts)

    def counts(self) -> dict[str, int]:
        """Return how many numbers are printed, how many have each verdict, and how many statements hold."""
        facts = self.facts()
        return {
            "printed": len(self.printed_numbers()),
            "agree": len(self.printed_numbers("agrees")),
            "misprints": len(self.printed_numbers("misprint")),
            "differ": len(self.printed_numbers("differs")),
            "statements": len(facts),
            "statements_that_hold": sum(fact.holds for fact in facts),
        }

    def differences(self) -> tuple[str, ...]:
        """Return, in words, each printed number that differs and each statement that does not hold."""
        numbers = tuple(
            f"{place.step}, {place.row}, {place.column}: computed {place.number.computed:.7g}, "
            f"expected {_expected(place.number)}"
            for place in self.printed_numbers("differs")
        )
        return numbers + tuple(f"not so: {fact.statement}" for fact in self.facts() if not fact.holds)


def _expected(number: Number) -> str:
    if number.misprint is None:
        return f"the printed {number.printed}"
    return f"{number.misprint.exact:.7g} (misprinted as {number.printed})"


def shape_of(axes: str, array: ArrayLike) -> str:
    """Return the axes' letters beside their sizes.

    Example:
        >>> shape_of("BTC", np.zeros((2, 2, 4)))
        '[B,T,C] = [2,2,4]'
    """
    sizes = ",".join(map(str, np.shape(array)))
    return f"[{','.join(axes)}] = [{sizes}]"


def make_rows(key: str, rows: Mapping[str, Sequence[float] | np.ndarray]) -> tuple[Row, ...]:
    """Put each row's computed numbers beside those the course prints for (key, label), each with its verdict.

    Example:
        >>> (row,) = make_rows("scalar_residual", {"x + 0.1x": [0.01, 0.011, 1.2]})
        >>> [number.verdict for number in row.numbers]
        ['agrees', 'agrees', 'differs']
    """
    return tuple(Row(label, _numbers(key, label, values)) for label, values in rows.items())


def exercise(
    name: str,
    sentence: str,
    shape: str,
    columns: tuple[str, ...],
    key: str,
    rows: Mapping[str, Sequence[float] | np.ndarray],
    facts: tuple[Fact, ...] = (),
) -> Step:
    """Return the step of an array that the model's trace has no name for; `key` is that of `make_rows`."""
    return Step(name, sentence, shape, None, columns, make_rows(key, rows), facts)


def _numbers(key: str, label: str, values: Sequence[float] | np.ndarray) -> tuple[Number, ...]:
    plain = values.tolist() if isinstance(values, np.ndarray) else list(values)
    printed = printed_row(key, label)
    pairs = zip(plain[: len(printed)], printed, strict=True)
    compared = [_compared(x, text, MISPRINTS.get((key, label, i))) for i, (x, text) in enumerate(pairs)]
    return (*compared, *(Number(x) for x in plain[len(printed) :]))


def _compared(computed: float, printed: str, misprint: Misprint | None) -> Number:
    return Number(computed, printed, judge(computed, printed, misprint), misprint)


def largest_difference(a: ArrayLike, b: ArrayLike) -> float:
    """Return max |a - b|; NaN anywhere gives NaN.

    Example:
        >>> largest_difference([1.0, 2.0], [1.0, 2.5])
        0.5
    """
    return float(np.max(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64))))


def same(statement: str, a: ArrayLike, b: ArrayLike, *, within: float = 0.0) -> Fact:
    """Return the statement that two arrays are equal, exactly or within a distance, with the distance measured.

    Example:
        >>> same("halves are halves", [0.5], [0.5])
        Fact(statement='halves are halves (exactly)', holds=True)
    """
    distance = largest_difference(a, b)
    holds = distance <= within
    measured = "exactly" if distance == 0 else f"{'within' if holds else 'off by'} {distance:.1g}"
    return Fact(f"{statement} ({measured})", holds)


def apart(statement: str, a: ArrayLike, b: ArrayLike) -> Fact:
    """Return the statement that two arrays differ by more than rounding, with the distance measured."""
    distance = largest_difference(a, b)
    return Fact(f"{statement} (by up to {distance:.4f})", math.isfinite(distance) and distance > 1e-3)
