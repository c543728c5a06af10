"""Taps, dropout and what is refused; that every kernel is the formula is shown in tests/promises."""

import math

import jax
import numpy as np
import pytest
import reference_numpy

from jaxgpt.config import RequestError
from jaxgpt.ops.attention import attention, masked_softmax
from jaxgpt.ops.contracts import ContractError


def inputs(B, T, S, H, D):
    rng = np.random.default_rng(T + S + D)
    return [rng.standard_normal(shape, np.float32) for shape in ((B, T, H, D), (B, S, H, D), (B, S, H, D))]


def test_auto_is_dense_to_the_last_bit():
    q, k, v = inputs(2, 5, 5, 3, 4)
    np.testing.assert_array_equal(attention(q, k, v), attention(q, k, v, implementation="dense"))


def test_the_same_dropout_key_drops_the_same_weights_in_each_implementation_that_drops():
    q, k, v = inputs(2, 8, 8, 2, 4)

    @jax.jit
    def all_three(key):
        options = {"dropout_rate": 0.4, "dropout_key": key}
        return *(attention(q, k, v, implementation=name, **options) for name in ("reference", "dense")), attention(
            q, k, v
        )

    first, second, without = all_three(jax.random.key(3))
    assert reference_numpy.relative_error(first, second) < 1e-5
    assert reference_numpy.relative_error(first, without) > 0.1


def test_dropout_acts_on_the_weights_after_the_softmax():
    q = np.zeros((1, 64, 1, 1), np.float32)
    v = np.eye(64, dtype=np.float32)[None, :, None, :]
    weights = attention(
        np.broadcast_to(q, (1, 64, 1, 64)), np.broadcast_to(q, (1, 64, 1, 64)), v,
        mask="full", dropout_rate=0.5, dropout_key=jax.random.key(0),
    )[0, :, 0]  # fmt: skip
    assert set(np.unique(weights).tolist()) == {0.0, 2 / 64}


def test_a_tap_sees_scaled_scores_before_the_mask_and_weights_after_it():
    q, k, v = inputs(2, 3, 5, 2, 4)
    seen = {}

    def tap(name, value):
        seen[name] = value
        return value

    heads = attention(q, k, v, tap=tap)
    assert list(seen) == ["scores", "weights"]
    np.testing.assert_allclose(seen["scores"], np.einsum("bthd,bshd->bhts", q, k) / 2, rtol=1e-5, atol=1e-6)
    exact = reference_numpy.attention_weights(q.astype(np.float64), k, "causal", 0.5)
    np.testing.assert_allclose(seen["weights"], exact, atol=1e-6)
    assert (np.asarray(seen["weights"])[exact == 0] == 0).all()
    np.testing.assert_allclose(heads, attention(q, k, v), rtol=1e-5, atol=1e-6)


def test_a_tap_may_replace_the_weights():
    q, k, v = inputs(1, 3, 3, 2, 4)
    first_key_only = np.zeros((1, 2, 3, 3), np.float32)
    first_key_only[..., 0] = 1
    heads = attention(q, k, v, tap=lambda name, value: first_key_only if name == "weights" else value)
    np.testing.assert_allclose(heads, np.broadcast_to(v[:, :1], v.shape), rtol=1e-6)


def test_a_row_that_sees_nothing_gives_zeros_and_zero_gradients():
    mask = np.array([[True, False], [False, False]])
    scores = np.array([[3.0, 4.0], [5.0, 6.0]], np.float32)
    np.testing.assert_array_equal(masked_softmax(scores, mask), [[1, 0], [0, 0]])
    gradient = jax.jit(jax.grad(lambda s: (masked_softmax(s, mask) * (1 + scores)).sum()))(scores)
    np.testing.assert_array_equal(gradient, np.zeros((2, 2)))


X = np.zeros((2, 3, 2, 4), np.float32)


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((X[0], X, X), {}, r"q_BTHD: expected shape \[B, T, H, D\], got \[3, 2, 4\]"),
        ((X, X[..., :3], X), {}, r"k_BSKD: expected shape \[B=2, S, K, D=4\], got \[2, 3, 2, 3\]"),
        ((X, X, X[:, :2]), {}, r"v_BSKD: expected shape \[B=2, S=3, K=2, D=4\], got \[2, 2, 2, 4\]"),
        ((X.astype(int), X, X), {}, "q_BTHD: expected floating-point numbers, got int"),
        ((X, X[:, :, [0, 1, 1]], X[:, :, [0, 1, 1]]), {}, "2 query heads for 3 key heads; K must divide H"),
        ((X, X, X.astype(int)), {}, "v_BSKD: expected floating-point numbers, got int"),
        ((X, X[:, :2], X[:, :2]), {}, "mask: 3 queries for 2 keys"),
        ((X, X, X), {"mask": "causel"}, "mask: expected 'causal', 'full' or one built by jaxgpt.masks, got 'causel'"),
        ((X, X, X), {"implementation": "dens"}, "implementation 'dens' is not one of .*did you mean 'dense'"),
        ((X, X, X), {"implementation": "dense", "tap": lambda _, x: x}, "'dense' has no scores or weights to trace"),
        ((X, X, X), {"dropout_rate": 1.0}, "dropout_rate: expected a plain number at least 0 and below 1, got 1.0"),
        ((X, X, X), {"scale": math.nan}, "scale: expected a plain number above -inf and below inf, got nan"),
        ((X, X, X), {"soft_cap": math.inf}, "soft_cap: expected a plain number above 0 and below inf, got inf"),
        ((X, X, X), {"soft_cap": "3"}, "soft_cap: expected a plain number above 0 and below inf, got '3'"),
        ((X, X, X), {"query_offset": 1.5}, "query_offset: expected whole numbers, got float"),
        ((X, X, X), {"mask": "full", "query_offset": 1.5}, "query_offset: expected whole numbers, got float"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, options, words):
    with pytest.raises(RequestError, match=words) as caught:
        attention(*arguments, **options)
    assert isinstance(caught.value, ContractError) == ("expected shape" in words or "floating" in words)
