"""The loss: against float64, with its gradient, and what is not counted is not seen."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_numpy

from jaxgpt.ops import cross_entropy
from jaxgpt.ops.contracts import ContractError

token_cross_entropy = jax.jit(cross_entropy.token_cross_entropy)
mean_over_tokens = jax.jit(cross_entropy.mean_over_tokens)
RNG = np.random.default_rng(0)
LOGITS = (4 * RNG.standard_normal((2, 5, 13))).astype(np.float32)
TARGETS = RNG.integers(0, 13, (2, 5))


@jax.jit
def mean_loss(logits, targets, weights=None):
    weights = np.ones(targets.shape, np.float32) if weights is None else weights
    return mean_over_tokens(token_cross_entropy(logits, targets), weights)[0]


@pytest.mark.parametrize(("factor", "offset"), [(1, 0), (100, 0), (1, 1e4), (1e-3, 0)])
def test_cross_entropy_is_the_formula(factor, offset):
    logits = (factor * LOGITS + offset).astype(np.float32)
    wanted = reference_numpy.token_nats(logits.astype(np.float64), TARGETS)
    np.testing.assert_allclose(token_cross_entropy(logits, TARGETS), wanted, rtol=1e-5, atol=1e-5 + 3e-7 * offset)


def test_uniform_logits_cost_the_logarithm_of_the_vocabulary():
    np.testing.assert_allclose(token_cross_entropy(np.zeros((2, 5, 13), np.float32), TARGETS), np.log(13), rtol=1e-6)


def test_the_gradient_is_softmax_minus_the_target_over_the_number_of_tokens():
    wanted = (reference_numpy.softmax(LOGITS.astype(np.float64)) - np.eye(13)[TARGETS]) / TARGETS.size
    got = np.asarray(jax.jit(jax.grad(mean_loss))(LOGITS, TARGETS))
    np.testing.assert_allclose(got, wanted, atol=1e-7)
    np.testing.assert_allclose(got.sum(-1), 0, atol=1e-7)


def by_gather(logits, targets):
    picked = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return (jax.nn.logsumexp(logits, -1) - picked).mean()


@pytest.mark.parametrize(("function", "scatters"), [(mean_loss, False), (by_gather, True)])
def test_the_compiled_gradient_scatters_nothing_where_a_gathers_would(function, scatters):
    lowered = jax.jit(jax.grad(function)).lower(jnp.asarray(LOGITS), jnp.asarray(TARGETS))
    assert ("stablehlo.scatter" in lowered.as_text()) == scatters
    if not scatters:
        assert not re.search(r"\bscatter\(", lowered.compile().as_text())


def test_bfloat16_logits_are_reduced_in_float32():
    nats = token_cross_entropy(jnp.zeros((1, 1, 1000), jnp.bfloat16), np.array([[3]]))
    assert nats.dtype == jnp.float32
    assert float(nats[0, 0]) == pytest.approx(np.log(1000), rel=1e-6)


@pytest.mark.parametrize("target", [-1, 13, 2**31 - 1])
def test_a_target_outside_the_vocabulary_gives_nan_in_a_compiled_program(target):
    targets = TARGETS.copy()
    targets[1, 2] = target
    nats = np.asarray(token_cross_entropy(LOGITS, targets))
    assert np.isnan(nats[1, 2])
    assert np.isnan(nats).sum() == 1


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32])
def test_any_whole_number_type_picks_the_same_target(dtype):
    np.testing.assert_array_equal(
        token_cross_entropy(LOGITS, TARGETS.astype(dtype)), token_cross_entropy(LOGITS, TARGETS)
    )


def test_the_mean_is_the_sum_over_counted_tokens_divided_by_their_number():
    values, weights = np.array([[1.0, 2.0, 30.0]]), np.array([[1.0, 1.0, 0.0]])
    assert [float(x) for x in mean_over_tokens(values, weights)] == [1.5, 3.0, 2.0]


def test_sums_and_counts_of_parts_add_up_to_the_whole():
    values, weights = RNG.random((6, 4)).astype(np.float32), (RNG.random((6, 4)) < 0.5).astype(np.float32)
    mean, total, count = mean_over_tokens(values, weights)
    parts = [mean_over_tokens(values[i : i + 2], weights[i : i + 2]) for i in (0, 2, 4)]
    assert sum(float(part[1]) for part in parts) == pytest.approx(float(total), rel=1e-6)
    assert sum(float(part[2]) for part in parts) == float(count) == weights.sum()
    assert float(mean) == pytest.approx(float((values * weights).sum() / weights.sum()), rel=1e-6)


def test_no_counted_token_gives_zero_and_a_zero_gradient():
    assert [float(x) for x in mean_over_tokens(jnp.ones((2, 3)), jnp.zeros((2, 3)))] == [0, 0, 0]
    gradient = jax.jit(jax.grad(mean_loss))(LOGITS, TARGETS, np.zeros((2, 5), np.float32))
    np.testing.assert_array_equal(gradient, 0)


@pytest.mark.parametrize("hidden", [np.nan, np.inf])
def test_what_is_not_counted_cannot_leak_into_value_or_gradient(hidden):
    values = np.array([[1.0, hidden, 3.0]], np.float32)
    weights = np.array([[1.0, 0.0, 1.0]], np.float32)
    mean, gradient = jax.value_and_grad(lambda v: mean_over_tokens(v, weights)[0])(values)
    assert float(mean) == 2.0
    np.testing.assert_array_equal(gradient, [[0.5, 0.0, 0.5]])


def test_an_uncounted_target_outside_the_vocabulary_does_no_harm():
    targets, weights = TARGETS.copy(), np.ones((2, 5), np.float32)
    targets[0, 1], weights[0, 1] = -100, 0
    value, gradient = jax.jit(jax.value_and_grad(mean_loss))(LOGITS, targets, weights)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    np.testing.assert_array_equal(gradient[0, 1], 0)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, bool, np.int8])
def test_a_count_is_exact_whatever_type_the_weights_have(dtype):
    _, total, count = mean_over_tokens(jnp.ones((30, 21)), jnp.ones((30, 21), dtype))
    assert count.dtype == jnp.float32
    assert float(total) == float(count) == 630


def test_targets_and_weights_of_another_shape_are_refused_not_broadcast():
    logits = np.zeros((2, 3, 4), np.float32)
    with pytest.raises(ContractError, match=r"target_ids_BT: expected shape \[B=2, T=3\], got \[2, 1\]"):
        token_cross_entropy(logits, np.zeros((2, 1), int))
    with pytest.raises(ContractError, match=r"weights_BT: expected the values' shape \[2, 3\], got \[2, 1\]"):
        mean_over_tokens(np.zeros((2, 3)), np.ones((2, 1)))
