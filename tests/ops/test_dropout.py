"""Dropout: the right share, the right scale, independent everywhere, and nothing without a key."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgpt.config import RequestError
from jaxgpt.ops.dropout import dropout, layer_key, site_key

KEY = jax.random.key(0)
SITES = ("embedding", "attention_weights", "attention_update", "ffn_update")


def correlation(a, b):
    return abs(np.corrcoef(np.ravel(a), np.ravel(b))[0, 1])


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_the_share_of_zeros_is_the_rate_and_the_rest_is_scaled_up(rate):
    n = 40_000
    y = np.asarray(dropout(jnp.ones(n), rate, KEY))
    zeros = (y == 0).mean()
    assert abs(zeros - rate) < 5 * np.sqrt(rate * (1 - rate) / n)  # five standard deviations
    np.testing.assert_allclose(y[y != 0], 1 / (1 - rate), rtol=1e-6)


def test_rows_heads_and_positions_are_independent():
    kept = np.asarray(dropout(jnp.ones((4, 4, 64, 64)), 0.5, KEY) != 0, float)
    bound = 5 / np.sqrt(4 * 64 * 64)
    for axis in range(2):
        first, second = np.take(kept, 0, axis), np.take(kept, 1, axis)
        assert correlation(first, second) < bound
    for axis in (2, 3):
        assert correlation(np.take(kept, range(63), axis), np.take(kept, range(1, 64), axis)) < bound


@pytest.mark.parametrize(("rate", "key"), [(0.5, None), (0.0, KEY), (0.0, None)])
def test_without_a_key_or_a_rate_the_input_comes_back_itself(rate, key):
    x = jnp.arange(3.0)
    assert dropout(x, rate, key) is x


def test_one_key_gives_one_mask_and_another_key_another():
    x = jnp.ones(100)
    np.testing.assert_array_equal(dropout(x, 0.5, KEY), jax.jit(dropout, static_argnums=1)(x, 0.5, KEY))
    assert (dropout(x, 0.5, KEY) != dropout(x, 0.5, jax.random.key(1))).any()


def test_the_gradient_is_the_mask_itself():
    x = jnp.linspace(1, 2, 50)
    gradient = jax.grad(lambda x: dropout(x, 0.5, KEY).sum())(x)
    np.testing.assert_allclose(gradient, dropout(x, 0.5, KEY) / x, rtol=1e-6)


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5])
def test_a_rate_that_is_no_probability_is_refused(rate):
    with pytest.raises(RequestError, match=f"dropout rate: expected at least 0 and below 1, got {rate}"):
        dropout(jnp.ones(3), rate, KEY)


def test_bfloat16_stays_bfloat16():
    assert dropout(jnp.ones(3, jnp.bfloat16), 0.5, KEY).dtype == jnp.bfloat16


def test_every_layer_and_site_has_a_key_of_its_own():
    keys = [site_key(layer_key(KEY, layer), site) for layer, site in itertools.product(range(-1, 24), SITES)]
    assert len({tuple(np.asarray(jax.random.key_data(key))) for key in keys}) == len(keys) == 100


def test_no_key_stays_no_key():
    assert layer_key(None, 3) is None
    assert site_key(None, "embedding") is None
