"""Promise: changing token j leaves the logits before j untouched; the gradient by position is triangular. Exact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_models import SMALL, random_ids, random_parameters

import jaxgpt
from jaxgpt import ExecutionConfig

T = SMALL.context_length
PARAMS, IDS = random_parameters(SMALL), random_ids(SMALL, batch=1)
EXECUTIONS = {
    "dense": ExecutionConfig(),
    "reference": ExecutionConfig(attention="reference"),
    "bfloat16": ExecutionConfig(compute_dtype="bfloat16"),
}


@pytest.mark.parametrize("name", ["dense", pytest.param("reference", marks=pytest.mark.ci), "bfloat16"])
def test_changing_a_token_leaves_the_logits_before_it_untouched_to_the_last_bit(name):
    execution = EXECUTIONS[name]
    changed = np.repeat(IDS, T, axis=0)
    changed[range(T), range(T)] = (changed[range(T), range(T)] + 1) % SMALL.vocab_size
    apply = jax.jit(jaxgpt.apply)
    before = np.asarray(apply(SMALL, PARAMS, np.repeat(IDS, T, axis=0), execution=execution))
    after = np.asarray(apply(SMALL, PARAMS, changed, execution=execution))
    for j in range(T):
        np.testing.assert_array_equal(after[j, :j], before[j, :j])
        for t in range(j, T):
            assert (after[j, t] != before[j, t]).any()


@pytest.mark.parametrize("name", ["dense", pytest.param("reference", marks=pytest.mark.ci)])
def test_the_gradient_of_each_position_by_each_position_is_a_triangle(name):
    """Entry [t, s]: how much the logits of position t depend on the position embedding of s."""
    execution = EXECUTIONS[name]

    @jax.jit
    def by_position(table):
        def logits(table):
            params = {**PARAMS, "position_embedding": table}
            return jaxgpt.apply(SMALL, params, IDS, execution=execution)[0]

        return jax.jacrev(logits)(table)  # [T, V, T, C]

    jacobian = np.asarray(by_position(jnp.asarray(PARAMS["position_embedding"])))
    depends = np.abs(jacobian).max(axis=(1, 3))
    np.testing.assert_array_equal(depends[np.triu_indices(T, 1)], 0.0)
    assert (depends[np.tril_indices(T)] > 0).all()


def test_appending_tokens_changes_no_earlier_logit_beyond_rounding():
    apply = jax.jit(jaxgpt.apply)
    whole, part = (np.asarray(apply(SMALL, PARAMS, IDS[:, :length])) for length in (T, 3))
    np.testing.assert_allclose(part, whole[:, :3], rtol=1e-5, atol=1e-5)
