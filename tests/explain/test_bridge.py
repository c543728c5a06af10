"""The bridge ends in the model, and each stage before it is what its name says."""

import math

import jax
import numpy as np
import pytest
import reference_numpy
from small_models import random_parameters

import jaxgpt
from jaxgpt.explain.bridge import STAGES, bridge_steps
from jaxgpt.explain.lesson_weights import IDS_BT, lesson_config, lesson_parameters

pytestmark = pytest.mark.ci  # half a minute of small programs


def compute(name, params):
    return np.asarray(next(stage.compute(params) for stage in STAGES if stage.name == name))


def trace_of(params):
    _, seen = jaxgpt.apply(lesson_config(), params, IDS_BT, trace=True)
    return {name: np.asarray(array) for name, array in seen.items()}


@pytest.fixture(scope="module", params=["the lesson's weights", pytest.param("random weights", marks=pytest.mark.ci)])
def params(request):
    if request.param == "random weights":
        return jax.tree.map(jax.numpy.asarray, random_parameters(lesson_config(), seed=3))
    return lesson_parameters()


def test_the_last_stage_is_the_model_to_the_last_bit(params):
    np.testing.assert_array_equal(compute("+ vocabulary head", params), trace_of(params)["logits"])


def test_the_stages_that_have_become_the_model_equal_its_trace(params):
    trace = trace_of(params)
    facts = [fact for step in bridge_steps(params, trace) for fact in step.facts]
    assert sum("equals the model's" in fact.statement for fact in facts) == 4
    assert all(fact.holds for fact in facts if "equals the model's" in fact.statement)


def test_a_model_that_is_not_the_bridge_is_noticed():
    trace = trace_of(lesson_parameters())
    trace["logits"] = np.nextafter(trace["logits"], np.inf)
    facts = [fact for step in bridge_steps(lesson_parameters(), trace) for fact in step.facts]
    assert [fact.statement for fact in facts if not fact.holds] == [
        "equals the model's logits (off by 5e-07)",
    ]


def test_the_stages_before_the_norm_are_the_formulas(params):
    p = reference_numpy.float64(params)
    attention = p["blocks_0"]["attention"]
    tokens = p["token_embedding"][IDS_BT]
    stream = tokens + p["position_embedding"]

    def heads(x):
        q, k, v = (reference_numpy.project(x, attention[name], "btc,chd->bthd") for name in "qkv")
        return reference_numpy.attention(q, k, v, "causal", 1 / math.sqrt(2))

    update = reference_numpy.project(heads(stream), attention["out"], "bthd,hdc->btc")
    wanted = {
        "Lookup alone": tokens,
        "+ one bare head": heads(tokens)[:, :, 0],
        "+ positions": heads(stream)[:, :, 0],
        "+ second head and output projection": update,
        "+ residual": stream + update,
    }
    for name, array in wanted.items():
        np.testing.assert_allclose(compute(name, params), array, atol=1e-5)


def test_both_prompts_are_shown_at_like_with_their_difference(steps):
    step = steps["bridge", "+ one bare head"]
    a, b, difference = ([number.computed for number in row.numbers] for row in step.rows)
    np.testing.assert_allclose(np.subtract(a, b), difference, atol=1e-7)
    assert [row.label for row in step.rows] == ["A like@1", "B like@1", "A - B"]


def test_the_overview_names_every_stage(steps):
    overview = steps["bridge", "All stages at a glance"]
    assert [row.label for row in overview.rows] == [stage.name for stage in STAGES]
    widths = [row.numbers[0].computed for row in overview.rows]
    assert widths == [4, 2, 2, 4, 4, 4, 4, 4, 5]
    assert overview.rows[0].numbers[1].computed == 0
