"""The model is the float64 model, over many architectures, implementations and number formats."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_numpy
from small_models import ARCHITECTURES, SMALL, random_batch, random_ids, random_inputs, random_parameters

import jaxgpt
from jaxgpt import ExecutionConfig

ONE_BLOCK = SMALL.replace(layers=1)


@jax.jit
def loss_and_gradients(params, batch):
    return jax.value_and_grad(lambda params: jaxgpt.loss(ONE_BLOCK, params, batch)[0])(params)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_logits_are_those_of_the_formulas_in_float64(name):
    config = ARCHITECTURES[name]
    params, inputs = random_parameters(config), random_inputs(config)
    logits = jax.jit(jaxgpt.apply)(config, params, **inputs)
    assert logits.dtype == jnp.float32
    real = inputs["mask_BT"]
    wanted = reference_numpy.forward(config, params, *inputs.values())
    assert reference_numpy.relative_error(logits[real], wanted[real]) < 1e-5
    assert np.isfinite(logits).all()


def test_a_short_sequence_sees_the_first_positions():
    params, ids = random_parameters(SMALL), random_ids(SMALL, batch=1, length=2)
    wanted = reference_numpy.forward(SMALL, params, ids)
    assert reference_numpy.relative_error(jax.jit(jaxgpt.apply)(SMALL, params, ids), wanted) < 1e-5


def test_the_loss_is_the_mean_of_minus_log_p_over_the_counted_tokens():
    params, batch = random_parameters(SMALL), random_batch(SMALL)
    nats = reference_numpy.token_nats(
        reference_numpy.forward(SMALL, params, batch["token_ids_BT"]), batch["target_ids_BT"]
    )
    weights = batch["weights_BT"]
    assert 0 < weights.sum() < weights.size
    value, metrics = jax.jit(jaxgpt.loss)(SMALL, params, batch)
    assert float(value) == pytest.approx((nats * weights).sum() / weights.sum(), rel=1e-5)
    assert float(metrics["loss_sum"]) == pytest.approx((nats * weights).sum(), rel=1e-5)
    assert float(metrics["token_count"]) == weights.sum()


def test_a_batch_that_counts_nothing_costs_nothing_and_moves_nothing():
    batch = random_batch(ONE_BLOCK) | {"weights_BT": np.zeros((2, 6), np.float32)}
    value, gradients = loss_and_gradients(random_parameters(ONE_BLOCK), batch)
    assert float(value) == 0
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(gradients))


def test_the_gradient_is_the_slope_of_the_float64_loss():
    params, batch = random_parameters(ONE_BLOCK), random_batch(ONE_BLOCK)
    _, gradients = loss_and_gradients(params, batch)
    leaves, structure = jax.tree.flatten(reference_numpy.float64(params))
    rng, h = np.random.default_rng(5), 1e-5

    def float64_loss(leaves):
        logits = reference_numpy.forward(ONE_BLOCK, jax.tree.unflatten(structure, leaves), batch["token_ids_BT"])
        nats = reference_numpy.token_nats(logits, batch["target_ids_BT"])
        return (nats * batch["weights_BT"]).sum() / batch["weights_BT"].sum()

    for i, gradient in enumerate(jax.tree.leaves(gradients)):
        direction = rng.standard_normal(leaves[i].shape)
        ends = [float64_loss([*leaves[:i], leaves[i] + step * direction, *leaves[i + 1 :]]) for step in (h, -h)]
        slope = (ends[0] - ends[1]) / (2 * h)
        size = np.linalg.norm(gradient) * np.linalg.norm(direction)
        assert (np.asarray(gradient, np.float64) * direction).sum() == pytest.approx(slope, abs=1e-5 * size + 1e-7)


def test_the_reference_implementation_gives_the_same_logits():
    params, ids = random_parameters(SMALL), random_ids(SMALL)
    plain = jax.jit(jaxgpt.apply)(SMALL, params, ids)
    textbook = jax.jit(jaxgpt.apply)(SMALL, params, ids, execution=ExecutionConfig(attention="reference"))
    assert reference_numpy.relative_error(textbook, plain) < 1e-5


def test_bfloat16_stays_close_and_gives_float32_logits_loss_and_gradients():
    params, batch = random_parameters(ONE_BLOCK, spread=0.1), random_batch(ONE_BLOCK)
    half = ExecutionConfig(compute_dtype="bfloat16")

    @jax.jit
    def run(params):
        def loss(params):
            return jaxgpt.loss(ONE_BLOCK, params, batch, execution=half)[0]

        logits = jaxgpt.apply(ONE_BLOCK, params, batch["token_ids_BT"], execution=half)
        return logits, *jax.value_and_grad(loss)(params)

    logits, value, gradients = run(params)
    assert {leaf.dtype for leaf in jax.tree.leaves((logits, value, gradients))} == {jnp.dtype("float32")}
    exact = reference_numpy.forward(ONE_BLOCK, params, batch["token_ids_BT"])
    assert 1e-5 < reference_numpy.relative_error(logits, exact) < 2e-2
    exact_value, exact_gradients = loss_and_gradients(params, batch)
    assert float(value) == pytest.approx(float(exact_value), rel=1e-2)
    assert reference_numpy.tree_error(*map(jax.tree.leaves, (gradients, exact_gradients))) < 3e-2


def test_the_module_and_the_function_are_the_same_computation():
    params, ids = random_parameters(SMALL), random_ids(SMALL)
    by_module = jaxgpt.Transformer(SMALL).apply({"params": params}, ids)
    np.testing.assert_array_equal(by_module, jaxgpt.apply(SMALL, params, ids))
