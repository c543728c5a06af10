"""The numbers that the course works out by hand come out of the modules that train.

The printed ones within half a unit of their last digit, but for six misprints; the others as float64 has them.
"""

from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_numpy

import jaxgpt
from jaxgpt.explain.example import example_steps, trace_lesson
from jaxgpt.explain.lesson_weights import IDS_BT, lesson_batch, lesson_config, lesson_parameters
from jaxgpt.explain.printed import MISPRINTS, PRINTED_ROWS
from jaxgpt.explain.steps import Lesson, Part

# (step, row, index): the printed number, the exact one and the digits to which that is known
SIX_MISPRINTS = {
    ("blocks_0/ffn/hidden", "A like@1", 0): ("1.1152", "1.115264"),
    ("blocks_0/ffn/hidden", "A like@1", 1): ("0.1596", "0.159740"),
    ("blocks_0/ffn/hidden", "A like@1", 2): ("-0.0952", "-0.095096"),
    ("blocks_0/ffn/hidden", "A like@1", 3): ("0.0144", "0.014514"),
    ("probabilities", "B like@1", 4): ("0.2886", "0.288549"),
    ("gelu", "GELU(x)", 3): ("1.955", "1.9544997"),
}
LOGITS_AT_LIKE = [
    [1.1128051103013468, -2.7390399845709976, -1.5262348742696508, 2.1335664570714656, 1.7396646382379546],
    [1.0100341811606603, -2.6987267266388852, -1.5886925454782248, 2.6821304681081344, 1.9673509097957886],
]
LOGITS_AT_START = [
    [-0.4631617107165087, 1.8600312711392677, 1.4968695604227593, -5.252172979569509, -2.73057741012901],
    [-1.8614992002767123, 2.7613089688996477, 0.9998097686229351, 1.873596986313046, -0.3381203369691581],
]
PROBABILITIES_AT_LIKE = [
    [0.17422511867116697, 0.003700630289253516, 0.012444867188554982, 0.48352817936482767, 0.3261012044861969],
    [0.11078013253378957, 0.0027149853058844146, 0.008238520051044662, 0.5897175750405993, 0.28854878706868203],
]
LOSS = 1.9176324751929954
LOSS_TARGETS = np.array([[1, 2], [1, 0]])


def half_a_unit(printed):
    return Decimal(5).scaleb(Decimal(printed).as_tuple().exponent - 1)


def distance(computed, printed):
    return abs(Decimal(float(computed)) - Decimal(printed))


def parts_of(lesson, part):
    return next(entry.steps for entry in lesson.parts if entry.name == part)


def test_every_printed_number_agrees_but_for_six_misprints(lesson):
    counts = lesson.counts()
    assert lesson.differences() == ()
    assert (counts["printed"], counts["misprints"], counts["differ"]) == (211, 6, 0)
    assert counts["statements"] == counts["statements_that_hold"]


def test_no_printed_number_is_left_out(lesson):
    shown = sorted(place.number.printed for place in lesson.printed_numbers())
    assert shown == sorted(
        number for rows in PRINTED_ROWS.values() for row in rows.values() for number in row.split()
    )


def test_half_a_unit_is_measured_in_exact_decimals(lesson):
    """The verdicts again, without their code."""
    far = [
        place
        for place in lesson.printed_numbers()
        if distance(place.number.computed, place.number.printed.replace(",", ""))
        > half_a_unit(place.number.printed.replace(",", ""))
    ]
    assert far == list(lesson.printed_numbers("misprint"))


def test_the_misprints_are_those_six(lesson):
    assert MISPRINTS.keys() == SIX_MISPRINTS.keys()
    found = {place.number.printed: place.number.computed for place in lesson.printed_numbers("misprint")}
    for printed, exact in SIX_MISPRINTS.values():
        assert float(found[printed]) == pytest.approx(float(exact), abs=6e-7)
        assert distance(found[printed], printed) > half_a_unit(printed)


def test_four_of_them_are_four_times_the_printed_update():
    update = [Decimal(text) for text in PRINTED_ROWS["blocks_0/ffn/update"]["A like@1"].split()]
    hidden = [Decimal(text) for text in PRINTED_ROWS["blocks_0/ffn/hidden"]["A like@1"].split()]
    assert hidden == [4 * number for number in update]


def test_the_fifth_comes_from_rounded_logits_and_the_sixth_from_rounding_twice():
    rounded = np.array([float(text) for text in PRINTED_ROWS["logits"]["B like@1"].split()])
    assert f"{reference_numpy.softmax(rounded)[4]:.4f}" == "0.2886"
    assert f"{reference_numpy.softmax(np.array(LOGITS_AT_LIKE[1]))[4]:.4f}" == "0.2885"
    twice = Decimal("1.9544997361").quantize(Decimal("0.0001"))
    assert twice.quantize(Decimal("0.001"), rounding="ROUND_HALF_UP") == Decimal("1.955")


def test_logits_are_those_of_float64():
    logits_BTV = jaxgpt.apply(lesson_config(), lesson_parameters(), IDS_BT)
    np.testing.assert_allclose(logits_BTV[:, 1], LOGITS_AT_LIKE, atol=1e-5)
    np.testing.assert_allclose(logits_BTV[:, 0], LOGITS_AT_START, atol=1e-5)
    wanted = reference_numpy.forward(lesson_config(), lesson_parameters(), IDS_BT)
    np.testing.assert_allclose(logits_BTV, wanted, atol=1e-5)


def test_probabilities_are_those_of_float64(lesson):
    rows = {row.label: row for row in parts_of(lesson, "example")[-1].rows}
    for label, wanted in zip(("A like@1", "B like@1"), PROBABILITIES_AT_LIKE, strict=True):
        np.testing.assert_allclose([number.computed for number in rows[label].numbers], wanted, atol=1e-6)


def test_the_loss_is_that_of_float64():
    batch = lesson_batch()
    np.testing.assert_array_equal(batch["target_ids_BT"], LOSS_TARGETS)
    mean, _ = jaxgpt.loss(lesson_config(), lesson_parameters(), batch)
    assert float(mean) == pytest.approx(LOSS, abs=1e-6)
    wanted = reference_numpy.token_nats(np.stack([LOGITS_AT_START, LOGITS_AT_LIKE], axis=1), LOSS_TARGETS)
    assert wanted.mean() == pytest.approx(LOSS, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("residual_0", lambda x: x.at[0, 0, 0].add(0.01)),
        ("blocks_0/ln1", lambda x: 1.01 * x),
        ("blocks_0/attention/weights", lambda x: jnp.full_like(x, 0.5)),
        ("blocks_0/ffn/hidden", jax.nn.relu),
        ("final_hidden", lambda x: x + 1e-3),
        ("logits", lambda x: x * jnp.nan),
    ],
)
def test_a_broken_model_is_found_out(name, change):
    params = lesson_parameters()
    _, seen = jaxgpt.apply(lesson_config(), params, IDS_BT, trace=True, overrides={name: change})
    trace = {key: np.asarray(array) for key, array in seen.items()}
    broken = Lesson((Part("example", "broken", example_steps(params, trace)),))
    assert broken.differences()
    assert broken.counts()["differ"] > 0


def test_the_whole_model_is_not_broken():
    """The control of the test above: the same steps from the untouched trace agree."""
    params = lesson_parameters()
    steps = example_steps(params, trace_lesson(params))
    assert Lesson((Part("example", "untouched", steps),)).differences() == ()
