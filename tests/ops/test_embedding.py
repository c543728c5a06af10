"""Embedding and vocabulary scores; an id outside the table is seen, not clamped."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgpt.ops.contracts import ContractError
from jaxgpt.ops.embedding import embed, vocabulary_logits

TABLE = np.arange(20, dtype=np.float32).reshape(5, 4)


def test_each_id_gets_its_row():
    ids = np.array([[0, 4, 1], [2, 2, 3]])
    np.testing.assert_array_equal(embed(ids, TABLE), TABLE[ids])


@pytest.mark.parametrize("bad", [-1, -5, 5, 1000, 2**31 - 1, -(2**31)])
def test_an_id_outside_the_table_gives_nan_in_a_compiled_program(bad):
    ids = np.array([[1, bad, 2]], np.int32)
    rows = np.asarray(jax.jit(embed)(ids, jnp.asarray(TABLE)))
    assert np.isnan(rows[0, 1]).all()
    np.testing.assert_array_equal(rows[0, [0, 2]], TABLE[[1, 2]])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_a_narrow_integer_type_reaches_its_own_largest_row(dtype):
    largest = np.iinfo(dtype).max
    table = jnp.arange(largest + 10, dtype=jnp.float32)[:, None]
    assert float(jax.jit(embed)(np.array([[largest]], dtype), table)[0, 0, 0]) == largest
    assert np.isnan(jax.jit(embed)(np.array([[largest]], dtype), table[:9])).all()


def test_the_gradient_of_a_row_is_summed_over_its_uses():
    ids = np.array([[1, 1, 3]])
    gradient = jax.grad(lambda table: embed(ids, table).sum())(jnp.asarray(TABLE))
    np.testing.assert_array_equal(gradient[:, 0], [0, 2, 0, 1, 0])


def test_a_tied_head_scores_with_the_table_and_an_own_head_with_its_kernel():
    hidden = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    bias = np.arange(5, dtype=np.float32)
    np.testing.assert_allclose(vocabulary_logits(hidden, {}, TABLE), hidden @ TABLE.T, rtol=1e-5, atol=1e-5)
    own = vocabulary_logits(hidden, {"kernel": TABLE.T[::-1], "bias": bias}, None)
    np.testing.assert_allclose(own, hidden @ TABLE.T[::-1] + bias, rtol=1e-5, atol=1e-5)


def test_logits_are_float32_and_summed_in_float32():
    hidden, table = jnp.ones((1, 1, 4096), jnp.bfloat16), jnp.ones((2, 4096))
    logits = vocabulary_logits(hidden, {}, table)
    assert logits.dtype == jnp.float32
    np.testing.assert_array_equal(logits, 4096)


def test_the_soft_cap_bounds_the_logits_and_keeps_their_order():
    hidden = np.random.default_rng(0).standard_normal((1, 3, 4)).astype(np.float32) * 10
    plain = np.asarray(vocabulary_logits(hidden, {}, TABLE))
    capped = np.asarray(vocabulary_logits(hidden, {}, TABLE, soft_cap=3.0))
    np.testing.assert_allclose(capped, 3 * np.tanh(plain.astype(np.float64) / 3), rtol=1e-5)


def test_a_head_that_does_not_fit_is_refused_not_broadcast():
    hidden = np.ones((1, 2, 4), np.float32)
    with pytest.raises(ContractError, match=r"bias_V: expected shape \[V=5\], got \[1\]"):
        vocabulary_logits(hidden, {"bias": np.ones(1)}, TABLE)
    with pytest.raises(ContractError, match=r"kernel_CV: expected shape \[C=4, V\], got \[5, 4\]"):
        vocabulary_logits(hidden, {"kernel": TABLE}, None)
