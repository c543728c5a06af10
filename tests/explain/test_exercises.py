"""Each exercise has the numbers that pen, paper and float64 give."""

import math

import numpy as np
import pytest
import reference_numpy

from jaxgpt.explain.lesson_weights import IDS_BT, TARGET_IDS_BT, lesson_config, lesson_parameters


@pytest.fixture
def rows(steps):
    """{label: numbers} of an exercise."""

    def find(name):
        return {row.label: [n.computed for n in row.numbers] for row in steps["exercises", name].rows}

    return find


@pytest.fixture
def facts(steps):
    return lambda name: [fact.statement for fact in steps["exercises", name].facts if fact.holds]


def test_gelu_is_x_times_the_normal_distribution(rows):
    wanted = [x * 0.5 * (1 + math.erf(x / math.sqrt(2))) for x in (-1, 0, 1, 2)]
    np.testing.assert_allclose(rows("GELU")["GELU(x)"], wanted, atol=1e-6)
    assert rows("GELU")["GELU(x)"][1] == 0.0


def test_the_variance_is_the_populations(rows):
    statistics = rows("Mean and spread of a row")
    np.testing.assert_allclose(statistics["x"], [2.5, 1.25, math.sqrt(1.25)], rtol=1e-6)
    np.testing.assert_allclose(statistics["100x + 1000"], [1250, 12500, math.sqrt(12500)], rtol=1e-6)


def test_layer_norm_drops_scale_and_offset(rows, facts):
    normed = rows("Layer norm of a row, and of 100x + 1000")
    np.testing.assert_allclose(normed["x"], np.array([-1.5, -0.5, 0.5, 1.5]) / math.sqrt(1.25001), atol=1e-6)
    np.testing.assert_allclose(
        normed["100x + 1000"], np.array([-150, -50, 50, 150]) / math.sqrt(12500.00001), atol=1e-6
    )
    assert any("on its own" in fact for fact in facts("Layer norm of a row, and of 100x + 1000"))


def test_one_weight_mixes_two_features(rows, facts):
    mixing = rows("Mixing features with one weight")
    np.testing.assert_allclose(mixing["W1[1,0] = 0"], [1, 0.841345, 0.210336], atol=6e-7)
    np.testing.assert_allclose(mixing["W1[1,0] = 1"], [3, 2.995950, 0.748988], atol=6e-7)
    assert facts("Mixing features with one weight") == ["outputs 1 to 3 do not change (exactly)"]


def test_the_mask_is_a_lower_triangle(rows):
    assert list(rows("Causal mask of four tokens").values()) == np.tril(np.ones((4, 4), int)).tolist()


def test_a_masked_score_has_no_share_at_all(rows, facts):
    weights = np.array(list(rows("Softmax under the mask").values()))
    scores = np.where(np.tril(np.ones((4, 4), bool)), np.arange(16).reshape(4, 4) / 4, -np.inf)
    np.testing.assert_allclose(weights, reference_numpy.softmax(scores), atol=1e-6)
    assert (weights[np.triu_indices(4, 1)] == 0).all()
    assert "a score of -inf gets a weight of 0 (exactly)" in facts("Softmax under the mask")


def test_without_mask_and_positions_the_order_does_not_matter(rows, facts):
    outputs = rows("Does attention know the order?")
    np.testing.assert_allclose(outputs["full, at place 1"], outputs["full, at place 3"], atol=1e-6)
    apart = np.subtract(outputs["causal, at place 1"], outputs["causal, at place 3"])
    assert np.abs(apart).max() > 0.1
    assert len(facts("Does attention know the order?")) == 2


def test_the_slope_of_a_residual_is_one_and_the_branchs(rows):
    np.testing.assert_allclose(rows("A residual path in one number")["x + 0.1x"], [0.01, 0.011, 1.1], atol=1e-6)


def test_the_loss_is_the_mean_over_four_tasks(rows, steps):
    (nats,) = rows("The training loss").values()
    logits = reference_numpy.forward(lesson_config(), lesson_parameters(), IDS_BT)
    wanted = reference_numpy.token_nats(logits, TARGET_IDS_BT).ravel()
    np.testing.assert_allclose(nats, [*wanted, 1.917632], atol=1e-6)
    assert steps["exercises", "The training loss"].shape.startswith("[N,V] = [4,5] against [N] = [4]")


def test_one_step_downhill_lowers_the_loss(rows):
    before, after, length = rows("One step downhill")["one step"]
    assert before == pytest.approx(1.917632, abs=1e-6)
    assert after < before
    assert length > 0


def test_the_descent_follows_the_gradient_of_float64(rows):
    """The loss after a step, with the slopes taken by central differences of the float64 formulas."""
    config, params = lesson_config(), reference_numpy.float64(lesson_parameters())

    def loss():
        return reference_numpy.token_nats(reference_numpy.forward(config, params, IDS_BT), TARGET_IDS_BT).mean()

    arrays, slopes = list(leaves(params)), []
    for array in arrays:
        slopes.append(np.zeros_like(array))
        for place in np.ndindex(array.shape):
            kept = array[place]
            array[place] = kept + 1e-5
            above = loss()
            array[place] = kept - 1e-5
            slopes[-1][place] = (above - loss()) / 2e-5
            array[place] = kept
    for array, slope in zip(arrays, slopes, strict=True):
        array -= 0.1 * slope
    _, after, length = rows("One step downhill")["one step"]
    assert after == pytest.approx(loss(), abs=1e-5)
    assert length == pytest.approx(math.sqrt(sum((slope**2).sum() for slope in slopes)), rel=1e-5)


def leaves(tree):
    for entry in tree.values():
        yield from leaves(entry) if isinstance(entry, dict) else [entry]


def test_generation_appends_the_best_word_and_then_crops(rows, facts):
    assert rows("One word is generated") == {"you like study": [0, 1, 3], "we like study": [4, 1, 3]}
    assert "shape of the next ids: [2,1]" in facts("One word is generated")
    assert "they score highest there (exactly)" in facts("One word is generated")
    wanted = reference_numpy.forward(lesson_config(), lesson_parameters(), np.array([[1, 3]]))[0, -1]
    for label in ("A like study", "B like study"):
        np.testing.assert_allclose(rows("The window moves on")[label], wanted, atol=1e-5)


def test_gpt2_has_its_124_million(rows):
    counts = rows("The 124 million of GPT-2")
    assert counts["sum"] == [124439808]
    assert sum(count for name, (count,) in counts.items() if name != "sum") == 124439808
