"""A verdict is a matter of half a unit of the last printed digit."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jaxgpt.explain.printed import Misprint
from jaxgpt.explain.steps import Fact, Lesson, Part, Row, Step, apart, judge, make_rows, same

printed_numbers = st.decimals(min_value=-100, max_value=100, places=4).map(str)


@given(printed=printed_numbers, share=st.floats(-3, 3))
def test_half_a_unit_divides_agreement_from_difference(printed, share):
    assume(abs(abs(share) - 0.5) > 1e-6)
    computed = float(Decimal(printed) + Decimal(share) * Decimal("0.0001"))
    assert judge(computed, printed) == ("agrees" if abs(share) < 0.5 else "differs")


@pytest.mark.parametrize(
    ("printed", "near", "far"), [("1", 1.4, 1.6), ("0.0000", 4e-5, 6e-5), ("1,250", 1250.4, 1251)]
)
def test_the_number_of_printed_digits_decides_how_near(printed, near, far):
    assert judge(near, printed) == "agrees"
    assert judge(far, printed) == "differs"


def test_nothing_agrees_with_a_number_that_is_none():
    assert judge(float("nan"), "0.5") == "differs"
    assert judge(float("inf"), "0.5") == "differs"


def test_a_misprint_must_be_wrong_in_print_and_right_when_computed():
    misprint = Misprint(0.288548787, "a reason")
    assert judge(0.2885488, "0.2886", misprint) == "misprint"
    assert judge(0.2886, "0.2886", misprint) == "differs"
    assert judge(0.2885488, "0.2885", misprint) == "differs"
    assert judge(0.2885, "0.2886", misprint) == "differs"


def test_a_row_shorter_than_its_printed_one_is_an_error():
    with pytest.raises(ValueError, match="longer"):
        make_rows("gelu", {"GELU(x)": [-0.159, 0.0]})


def test_a_statement_tells_the_distance():
    assert same("a is b", [1.0], [1.0]) == Fact("a is b (exactly)", True)
    assert same("a is b", [1.0], [1.25]) == Fact("a is b (off by 0.2)", False)
    assert same("a is b", [1.0], [1.25], within=0.5) == Fact("a is b (within 0.2)", True)
    assert not same("a is b", [np.nan], [np.nan], within=1).holds
    assert apart("a is not b", [1.0], [1.25]).holds
    assert not apart("a is not b", [1.0], [1.0]).holds
    assert not apart("a is not b", [np.nan], [1.0]).holds


def test_differences_name_the_place_and_both_numbers():
    rows = make_rows("gelu", {"GELU(x)": [0.159, 0.0, 0.841, 1.9]})
    step = Step("GELU", "", "", None, ("-1", "0", "1", "2"), rows, (Fact("the moon is cheese", False),))
    assert Lesson((Part("p", "t", (step,)),)).differences() == (
        "GELU, GELU(x), -1: computed 0.159, expected the printed -0.159",
        "GELU, GELU(x), 2: computed 1.9, expected 1.9545 (misprinted as 1.955)",
        "not so: the moon is cheese",
    )


def test_a_row_that_the_course_does_not_print_has_no_verdict():
    (row,) = make_rows("gelu", {"another row": [1.0]})
    assert row == Row("another row", row.numbers)
    assert row.numbers[0].verdict is None
