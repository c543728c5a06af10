"""Layer norm is the formula in float64, at every scale and offset that float32 can hold."""

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_numpy
from hypothesis import given, settings

from jaxgpt.config import RequestError
from jaxgpt.ops.norm import layer_norm, rms_norm

EPSILON = 1e-5
ULP = np.finfo(np.float32).eps
jitted = jax.jit(layer_norm, static_argnames="epsilon")


def wanted(x, scale, bias, epsilon=EPSILON):
    return reference_numpy.layer_norm(*(np.asarray(a, np.float64) for a in (x, scale, bias)), epsilon)


def rounding_bound(x, scale):
    """A mean of float32 numbers is off by some units in the last place of the largest; the norm scales it up."""
    x = np.asarray(x, np.float64)
    spread = np.sqrt(x.var(-1, keepdims=True) + EPSILON)
    return (8 * ULP * np.abs(x).max(-1, keepdims=True) / spread + 1e-5) * np.abs(scale).max()


@pytest.mark.parametrize(("factor", "offset"), [(1, 0), (100, 1000), (1e-3, 0), (1, 1e4), (1e6, -3e6)])
def test_layer_norm_is_the_formula(factor, offset):
    rng = np.random.default_rng(0)
    x = (factor * rng.standard_normal((3, 5, 33)) + offset).astype(np.float32)
    scale, bias = rng.standard_normal((2, 33)).astype(np.float32)
    error = np.abs(jitted(x, scale, bias) - wanted(x, scale, bias))
    assert (error <= rounding_bound(x, scale)).all()


def test_scaling_and_shifting_the_input_changes_nothing():
    x = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
    ones = np.ones(64, np.float32)
    np.testing.assert_allclose(jitted(100 * x + 1000, ones), jitted(x, ones), atol=2e-4)


@pytest.mark.parametrize("value", [0.0, 1.0, -7.5, 0.1])
def test_a_constant_row_becomes_the_bias(value):
    bias = np.arange(5, dtype=np.float32)
    y = jitted(np.full((2, 5), value, np.float32), np.full(5, 3.0, np.float32), bias)
    np.testing.assert_allclose(y, np.broadcast_to(bias, (2, 5)), atol=1e-4)


def test_the_variance_is_divided_by_all_features():
    assert float(jitted(np.array([0.0, 2.0], np.float32), np.ones(2))[1]) == pytest.approx(1 / np.sqrt(1 + EPSILON))


def test_epsilon_lies_inside_the_root():
    y = jitted(np.array([0.0, 2.0], np.float32), np.ones(2), epsilon=3.0)
    assert float(y[1]) == pytest.approx(0.5)


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.float32, (2, 6), elements=st.floats(-1e4, 1e4, width=32)))
def test_layer_norm_of_any_row_is_finite_and_within_rounding(x):
    scale, bias = np.linspace(0.5, 2, 6, dtype=np.float32), np.ones(6, np.float32)
    y = np.asarray(jitted(x, scale, bias))
    assert np.isfinite(y).all()
    assert (np.abs(y - wanted(x, scale, bias)) <= rounding_bound(x, scale)).all()


def test_bfloat16_comes_back_as_bfloat16_with_statistics_in_float32():
    x = (np.random.default_rng(2).standard_normal((8, 256)) + 20).astype(np.float32)
    x16 = jnp.asarray(x, jnp.bfloat16)
    y = jitted(x16, np.ones(256, np.float32))
    assert y.dtype == jnp.bfloat16
    exact = wanted(np.asarray(x16, np.float64), np.ones(256), np.zeros(256))
    assert reference_numpy.relative_error(np.asarray(y, np.float64), exact) < 2**-8


def test_the_gradient_is_the_formulas():
    rng = np.random.default_rng(3)
    x, out, scale = rng.standard_normal((3, 7))
    gradient = jax.jit(jax.grad(lambda x: (layer_norm(x, scale.astype(np.float32)) * out).sum()))(
        x.astype(np.float32)
    )
    centred, spread = x - x.mean(), np.sqrt(x.var() + EPSILON)
    d = out * scale
    exact = (d - d.mean() - centred / spread**2 * (d * centred).mean()) / spread
    np.testing.assert_allclose(gradient, exact, rtol=1e-4, atol=1e-5)


def test_rms_norm_is_the_formula_and_leaves_the_mean():
    rng = np.random.default_rng(4)
    x, scale, bias = rng.standard_normal((3, 5, 33)) * 7 + 2, *rng.standard_normal((2, 33))
    for shift in (bias, None):
        exact = reference_numpy.rms_norm(x, scale, shift, EPSILON)
        got = jax.jit(rms_norm)(*(None if a is None else a.astype(np.float32) for a in (x, scale, shift)))
        assert reference_numpy.relative_error(got, exact) < 1e-6
    assert float(rms_norm(np.full(4, 3.0, np.float32), np.ones(4))[0]) == pytest.approx(1)


@pytest.mark.parametrize("norm", [layer_norm, rms_norm])
def test_a_scale_or_bias_of_another_width_is_refused_not_broadcast(norm):
    x, ones = np.ones((2, 4), np.float32), np.ones(4, np.float32)
    with pytest.raises(RequestError, match=r"scale_C: expected shape \[C=4\], got \[1\]"):
        norm(x, np.ones(1, np.float32))
    with pytest.raises(RequestError, match=r"bias_C: expected shape \[C=4\], got \[1\]"):
        norm(x, ones, np.ones(1, np.float32))
