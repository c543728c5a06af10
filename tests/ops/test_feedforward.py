"""Both GELUs, the feed-forward network and the linear map against the formulas in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_numpy

from jaxgpt.ops import feedforward
from jaxgpt.ops.contracts import ContractError
from jaxgpt.ops.linear import linear as eager_linear

gelu = jax.jit(feedforward.gelu, static_argnums=1)
feed_forward = jax.jit(feedforward.feed_forward, static_argnames=("kind", "gelu_kind"))
linear = jax.jit(eager_linear, static_argnames="contract")
LINE = np.concatenate([np.linspace(-6, 6, 241), [-100.0, -30.0, 30.0, 100.0]])


@pytest.mark.parametrize("kind", ["exact", "tanh"])
def test_gelu_is_its_formula(kind):
    wanted = reference_numpy.gelu(LINE, kind)
    np.testing.assert_allclose(gelu(LINE.astype(np.float32), kind), wanted, rtol=1e-6, atol=1e-6)


def test_the_two_gelus_differ_by_less_than_a_thousandth_but_do_differ():
    apart = np.abs(np.asarray(gelu(LINE, "exact")) - np.asarray(gelu(LINE, "tanh"))).max()
    assert 1e-4 < apart < 1e-3


@pytest.mark.parametrize("kind", ["exact", "tanh"])
def test_the_slope_of_gelu_is_the_slope_of_its_formula(kind):
    x, h = np.linspace(-4, 4, 41), 1e-5
    slope = (reference_numpy.gelu(x + h, kind) - reference_numpy.gelu(x - h, kind)) / (2 * h)
    got = jax.jit(jax.vmap(jax.grad(lambda x: gelu(x, kind))))(x.astype(np.float32))
    np.testing.assert_allclose(got, slope, atol=2e-6)


@pytest.mark.parametrize("kind", ["exact", "tanh"])
@pytest.mark.parametrize("bias", [True, False])
def test_the_feed_forward_network_is_its_formula(kind, bias):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 5)).astype(np.float32)
    params = {
        "up": {"kernel": rng.standard_normal((5, 9)), "bias": rng.standard_normal(9)},
        "down": {"kernel": rng.standard_normal((9, 5)), "bias": rng.standard_normal(5)},
    }
    if not bias:
        params = {name: {"kernel": entry["kernel"]} for name, entry in params.items()}
    hidden = reference_numpy.gelu(x @ params["up"]["kernel"] + params["up"].get("bias", 0), kind)
    wanted = hidden @ params["down"]["kernel"] + params["down"].get("bias", 0)
    params32 = jax.tree.map(lambda p: p.astype(np.float32), params)
    assert reference_numpy.relative_error(feed_forward(x, params32, gelu_kind=kind), wanted) < 1e-6


@pytest.mark.parametrize("kind", ["relu", "swiglu", "geglu"])
def test_the_other_networks_are_their_formulas(kind):
    rng = np.random.default_rng(6)
    x = rng.standard_normal((2, 3, 5)).astype(np.float32)
    up, gate = rng.standard_normal((2, 5, 9))
    params = {"up": {"kernel": up}, "gate": {"kernel": gate}, "down": {"kernel": rng.standard_normal((9, 5))}}
    by_hand = {
        "relu": np.maximum(x @ up, 0),
        "swiglu": (x @ gate) / (1 + np.exp(-(x @ gate))) * (x @ up),
        "geglu": reference_numpy.gelu(x @ gate, "tanh") * (x @ up),
    }
    wanted = by_hand[kind] @ params["down"]["kernel"]
    params32 = jax.tree.map(lambda p: p.astype(np.float32), params)
    got = feed_forward(x, params32, kind=kind, gelu_kind="tanh")
    assert reference_numpy.relative_error(got, wanted) < 1e-6


def test_matrices_and_biases_that_do_not_fit_are_refused_not_broadcast():
    x, kernel = np.ones((1, 2, 3), np.float32), np.ones((3, 4), np.float32)
    with pytest.raises(ContractError, match=r"x is \[1, 2, 3\], kernel is \[2, 4\]; expected the last 1 axes"):
        eager_linear(x, {"kernel": kernel[:2]})
    with pytest.raises(ContractError, match=r"bias is \[1\], expected \[4\]"):
        eager_linear(x, {"kernel": kernel, "bias": np.ones(1)})
    with pytest.raises(ContractError, match=r"down_FC: expected shape \[F=4, C=3\], got \[4, 1\]"):
        feedforward.feed_forward(x, {"up": {"kernel": kernel}, "down": {"kernel": np.ones((4, 1))}})


def test_a_tap_sees_the_hidden_features_before_and_after_gelu():
    params = {"up": {"kernel": jnp.eye(2)}, "down": {"kernel": jnp.eye(2)}}
    seen = {}
    x = jnp.array([[[1.0, -1.0]]])
    feedforward.feed_forward(x, params, tap=lambda name, value: seen.setdefault(name, value))
    assert list(seen) == ["pre", "hidden"]
    np.testing.assert_array_equal(seen["pre"], x)
    np.testing.assert_array_equal(seen["hidden"], gelu(x))


@pytest.mark.parametrize(
    ("x_axes", "kernel_axes", "contract", "spec"),
    [
        ((2, 3, 4), (4, 5), 1, "btc,cf->btf"),
        ((2, 3, 4), (4, 2, 5), 1, "btc,chd->bthd"),
        ((2, 3, 2, 4), (2, 4, 5), 2, "bthd,hdc->btc"),
    ],
)
def test_linear_contracts_the_axes_that_its_kernel_begins_with(x_axes, kernel_axes, contract, spec):
    rng = np.random.default_rng(1)
    x, kernel = rng.standard_normal(x_axes).astype(np.float32), rng.standard_normal(kernel_axes).astype(np.float32)
    bias = rng.standard_normal(kernel_axes[contract:]).astype(np.float32)
    product = np.einsum(spec, x.astype(np.float64), kernel.astype(np.float64))
    np.testing.assert_allclose(linear(x, {"kernel": kernel}, contract=contract), product, rtol=1e-5, atol=1e-6)
    with_bias = linear(x, {"kernel": kernel, "bias": bias}, contract=contract)
    np.testing.assert_allclose(with_bias, product + bias, rtol=1e-5, atol=1e-6)


def test_a_bfloat16_product_accumulates_in_float32():
    x = jnp.ones((1, 1, 4108), jnp.bfloat16)
    y = linear(x, {"kernel": jnp.ones((4108, 1)), "bias": jnp.full(1, 8.0)})
    assert y.dtype == jnp.bfloat16
    # bfloat16 has 4096 and 4128 and nothing between: 4116 rounds up, but 4108 alone would round down first.
    assert float(y[0, 0, 0]) == 4128
