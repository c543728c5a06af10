"""Every implementation of attention is the float64 formula, in values and in all three gradients."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_numpy

from jaxgpt import masks
from jaxgpt.config import RequestError
from jaxgpt.ops.attention import attention, masked_softmax
from jaxgpt.ops.contracts import ContractError

IMPLEMENTATIONS = ("reference", "dense", "blocked")
CASES = {  # B, T, S, H, D, mask, factor of the queries
    "square causal": (2, 8, 8, 2, 4, "causal", 1),
    "one query": (2, 1, 6, 2, 4, "causal", 1),
    "full": (2, 5, 5, 2, 4, "full", 1),
    "full, more queries than keys": (1, 5, 3, 2, 4, "full", 1),
    "full, one key": (2, 4, 1, 2, 3, "full", 1),
    "odd sizes, fewer queries than keys": (1, 13, 17, 5, 7, "causal", 1),
    "scores of a thousand": (2, 8, 8, 2, 4, "causal", 1000),
}


def inputs(B, T, S, H, D, factor, dtype=np.float32):
    rng = np.random.default_rng(T + S + D)
    shapes = ((B, T, H, D), (B, S, H, D), (B, S, H, D), (B, T, H, D))
    q, k, v, out = (rng.standard_normal(shape) for shape in shapes)
    return [np.asarray(jnp.asarray(x, dtype)) for x in (factor * q, k, v, out)]


@functools.partial(jax.jit, static_argnames=("mask", "implementation"))
def heads_and_gradients(q, k, v, out, *, mask, implementation):
    heads, pull = jax.vjp(lambda *qkv: attention(*qkv, mask=mask, implementation=implementation), q, k, v)
    return heads, *pull(out)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("case", CASES)
def test_attention_is_the_formula(case, implementation):
    *sizes, mask, factor = CASES[case]
    arrays = inputs(*sizes, factor)
    q, k, v, out = (x.astype(np.float64) for x in arrays)
    scale = 1 / math.sqrt(q.shape[-1])
    wanted = (
        reference_numpy.attention(q, k, v, mask, scale),
        *reference_numpy.attention_gradients(q, k, v, mask, scale, out),
    )
    got = heads_and_gradients(*arrays, mask=mask, implementation=implementation)
    largest_score = np.abs(scale * np.einsum("bthd,bshd->bhts", q, k)).max()
    assert (largest_score > 500) == (factor == 1000)
    for name, mine, exact in zip(("heads", "q", "k", "v"), got, wanted, strict=True):
        # With a single key the weights are 1 whatever the score: the exact gradients of q and k are 0.
        scale_of_result = max(np.abs(exact).max(), 1e-3)
        error = np.abs(mine - exact).max() / scale_of_result
        assert error < 1e-5 * max(1, largest_score / 100), name
        assert np.isfinite(mine).all(), name


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_attention_in_bfloat16_is_the_formula_to_a_hundredth(implementation):
    *sizes, mask, factor = CASES["odd sizes, fewer queries than keys"]
    arrays = inputs(*sizes, factor, jnp.bfloat16)
    q, k, v, out = (x.astype(np.float64) for x in arrays)
    scale = 1 / math.sqrt(q.shape[-1])
    wanted = (
        reference_numpy.attention(q, k, v, mask, scale),
        *reference_numpy.attention_gradients(q, k, v, mask, scale, out),
    )
    got = heads_and_gradients(*arrays, mask=mask, implementation=implementation)
    for mine, exact in zip(got, wanted, strict=True):
        assert mine.dtype == jnp.bfloat16
        assert reference_numpy.relative_error(mine, exact) < 1e-2


def test_auto_is_dense_to_the_last_bit():
    q, k, v, _ = inputs(2, 5, 5, 3, 4, 1)
    np.testing.assert_array_equal(attention(q, k, v), attention(q, k, v, implementation="dense"))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_given_scale_replaces_one_over_the_root_of_the_head_size(implementation):
    q, k, v, _ = inputs(1, 4, 4, 2, 9, 1)
    got = jax.jit(lambda: attention(q, k, v, implementation=implementation, scale=0.7))()
    assert reference_numpy.relative_error(got, reference_numpy.attention(q, k, v, "causal", 0.7)) < 1e-5


def test_the_same_dropout_key_drops_the_same_weights_in_each_implementation_that_drops():
    q, k, v, _ = inputs(2, 8, 8, 2, 4, 1)

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
    q, k, v, _ = inputs(2, 3, 5, 2, 4, 1)
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
    q, k, v, _ = inputs(1, 3, 3, 2, 4, 1)
    first_key_only = np.zeros((1, 2, 3, 3), np.float32)
    first_key_only[..., 0] = 1
    heads = attention(q, k, v, tap=lambda name, value: first_key_only if name == "weights" else value)
    np.testing.assert_allclose(heads, np.broadcast_to(v[:, :1], v.shape), rtol=1e-6)


REAL = np.array([[False, False, True, True, True, False], [True, True, False, True, True, True]])
SEGMENTS = np.array([[1, 1, 2, 2, 2, 2], [1, 2, 2, 3, 3, 3]])
MASKED = {  # mask, and whether some row sees nothing
    "left padding": (masks.causal() & masks.padding(REAL), True),
    "padding, both directions": (masks.padding(REAL), False),
    "packed, windowed": (masks.causal() & masks.window(2) & masks.segments(SEGMENTS), False),
    "nothing at all": (masks.padding(np.zeros((2, 6), bool)), True),
    "packed and padded, both directions": (masks.segments(SEGMENTS) & masks.padding(REAL), True),
}


@functools.partial(jax.jit, static_argnames="implementation")
def masked_heads_and_gradients(q, k, v, out, mask, *, implementation):
    heads, pull = jax.vjp(lambda *qkv: attention(*qkv, mask=mask, implementation=implementation), q, k, v)
    return heads, *pull(out)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("case", "key_heads"), [*((case, 2) for case in MASKED), ("left padding", 1), ("left padding", 4)]
)
def test_masked_attention_over_shared_key_heads_is_the_formula(case, key_heads, implementation):
    mask, some_see_nothing = MASKED[case]
    q, k, v, out = inputs(2, 6, 6, 4, 3, 1)
    k, v = k[:, :, :key_heads], v[:, :, :key_heads]
    visible = np.broadcast_to(mask.visible(6, 6), (2, 1, 6, 6))
    assert (~visible.any(-1)).any() == some_see_nothing
    k_all, v_all = (x.astype(np.float64)[:, :, np.arange(4) // (4 // key_heads)] for x in (k, v))
    d_q, d_k, d_v = reference_numpy.attention_gradients(q, k_all, v_all, visible, 3**-0.5, out)
    d_k, d_v = (d.reshape(2, 6, key_heads, 4 // key_heads, 3).sum(3) for d in (d_k, d_v))
    wanted = (reference_numpy.attention(q, k_all, v_all, visible, 3**-0.5), d_q, d_k, d_v)
    for mine, exact in zip(
        masked_heads_and_gradients(q, k, v, out, mask, implementation=implementation), wanted, strict=True
    ):
        np.testing.assert_allclose(mine, exact, rtol=1e-5, atol=1e-5)
    heads = masked_heads_and_gradients(q, k, v, out, mask, implementation=implementation)[0]
    blind = np.broadcast_to(~visible.any(-1), (2, 4, 6)).swapaxes(1, 2)
    assert (np.asarray(heads)[blind] == 0).all()


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
        ((X, X, X), {"dropout_rate": 1.0}, "dropout rate: expected at least 0 and below 1"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, options, words):
    with pytest.raises(RequestError, match=words) as caught:
        attention(*arguments, **options)
    assert isinstance(caught.value, ContractError) == ("expected shape" in words or "floating" in words)
