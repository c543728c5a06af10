"""The page reads well at 100 columns, and says of every number how it compares."""

import io

import pytest
from rich.console import Console

from jaxgpt.explain.render import PAGE_WIDTH, page_console, print_lesson
from jaxgpt.explain.steps import Fact, Lesson, Part, Step, make_rows


def page_of(lesson, **options):
    out = io.StringIO()
    print_lesson(lesson, Console(file=out, width=PAGE_WIDTH, highlight=False, **options))
    return out.getvalue()


@pytest.fixture(scope="module")
def page(lesson):
    return page_of(lesson).splitlines()


def test_no_line_is_wider_than_the_page(page):
    assert max(map(len, page)) <= PAGE_WIDTH


def test_no_line_ends_in_blanks(page):
    assert [line for line in page if line != line.rstrip()] == []


def test_no_sentence_or_statement_breaks_over_two_lines(lesson, page):
    texts = {line.strip().removeprefix("holds").strip() for line in page}
    for step in lesson.steps():
        assert step.sentence in texts
        assert {fact.statement for fact in step.facts} <= texts


def test_each_step_shows_its_shape_with_the_letters_of_its_axes(page):
    assert " 7  Scores   [B,H,T,S] = [2,2,2,2]   blocks_0/attention/scores" in page
    assert "18  Logits   [B,T,V] = [2,2,5]   logits" in page


def test_the_printed_number_stands_under_the_computed_one(page):
    at = page.index("17  Final layer norm   [B,T,C] = [2,2,4]   final_hidden")
    computed, printed = page[at + 4 : at + 6]
    assert computed.split() == ["A", "like@1", "1.312805", "0.213430", "-1.493277", "-0.032958"]
    assert printed.split() == ["course", "=", "1.3128", "=", "0.2134", "=", "-1.4933", "=", "-0.0330"]
    assert [i for i, c in enumerate(computed) if c == "."] == [i for i, c in enumerate(printed) if c == "."]


def test_signs_tell_agreement_misprint_and_difference():
    rows = make_rows("gelu", {"GELU(x)": [-0.159, 0.0, 0.9, 1.9544997]})
    step = Step("GELU", "s", "", None, tuple("abcd"), rows, (Fact("the moon is cheese", False),))
    page = page_of(Lesson((Part("p", "t", (step,)),)))
    printed = next(line.split() for line in page.splitlines() if line.strip().startswith("course"))
    assert printed == ["course", "=", "-0.159", "=", "0", "!", "0.841", "*", "1.955"]
    assert "NOT SO  the moon is cheese" in page
    assert "4 printed numbers: 2 agree, 1 misprints of the course, 1 differ." in page


def test_the_six_misprints_are_listed_with_their_exact_values(page):
    listed = page[page.index("Misprints of the course") :]
    assert sum("printed" in line and "exactly" in line for line in listed) == 6
    assert "    printed 0.2886, exactly 0.2885488" in listed


def test_colour_is_for_terminals_alone(lesson, capsys):
    print_lesson(lesson, page_console())
    assert "\x1b[" not in capsys.readouterr().out
    assert "\x1b[" in page_of(lesson, force_terminal=True, color_system="standard")
