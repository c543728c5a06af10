"""The best validation so far, and the note when it keeps rising."""

import math

import pytest

from jaxgpt.training.history import Validation, best_of, logged_validations, rises, rising_note


def history(*losses):
    return [Validation(100 * i, loss) for i, loss in enumerate(losses, start=1)]


def test_the_best_is_the_first_of_the_lowest():
    assert best_of(history(3.0, 2.0, 2.5, 2.0)) == (200, 2.0)
    assert best_of(history(math.nan, 2.0)) == (200, 2.0)
    assert best_of(history(math.inf, 2.0, math.nan)) == (200, 2.0)
    assert best_of(history(math.nan)) is None
    assert best_of(history(math.inf)) is None
    assert best_of([]) is None


@pytest.mark.parametrize(
    ("losses", "count"),
    [((), 0), ((3,), 0), ((3, 2), 0), ((2, 3), 1), ((1, 3, 2, 2.1, 2.2), 2), ((1, 2, 2), 0), ((1, math.nan, 2), 0)],
)
def test_rises_are_counted_from_the_end(losses, count):
    assert rises(history(*losses)) == count


def test_the_note_comes_at_each_multiple_and_names_where_it_began():
    losses = (1.6, 1.5, 1.51, 1.52, 1.53, 1.54)
    notes = [rising_note(history(*losses[:n]), 2) for n in range(len(losses) + 1)]
    assert [note is not None for note in notes] == [False, False, False, False, True, False, True]
    assert notes[4].startswith("validation has risen 2 evaluations in a row since step 200 (1.5000): ")
    assert notes[6].startswith("validation has risen 4 evaluations in a row since step 200 (1.5000): ")


def test_no_metrics_yet_are_no_validations(tmp_path):
    assert logged_validations(tmp_path / "metrics.jsonl") == []
