"""One compiled step: its loss, and the guard that makes a non-finite step change nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_models import random_parameters

import jaxgpt
from jaxgpt.config import ExecutionConfig
from jaxgpt.training.diagnose import first_non_finite
from jaxgpt.training.step import initial_state, make_train_step, split_micro_batches

CONFIG = jaxgpt.ModelConfig.preset("minigpt", layers=1, residual_dropout=0.0, attention_dropout=0.0)
EXECUTION = ExecutionConfig()
RATE = optax.linear_schedule(0.25, 0.5, 2)
BATCH = {
    "token_ids_BT": np.array([[0, 1, 2, 3], [4, 1, 0, 2]], np.int32),
    "target_ids_BT": np.array([[1, 2, 3, 4], [1, 0, 2, 3]], np.int32),
    "weights_BT": np.ones((2, 4), np.float32),
}


def start(optimizer):
    return initial_state(random_parameters(CONFIG, spread=0.1), optimizer)


def make_step(optimizer, **options):
    return jax.jit(
        make_train_step(CONFIG, EXECUTION, optimizer, learning_rate=RATE, key=jax.random.key(1), **options)
    )


def norm(tree):
    return np.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(tree)))


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def test_a_step_of_sgd_moves_against_the_gradient_of_the_loss_it_reports():
    optimizer = optax.sgd(0.5)
    state = start(optimizer)
    new, metrics = make_step(optimizer)(state, split_micro_batches(BATCH, 1))
    program = jax.jit(jax.value_and_grad(lambda p: jaxgpt.loss(CONFIG, p, BATCH)[0]))
    loss, gradient = jax.device_get(program(state.params))
    expected = jax.tree.map(lambda p, g: p - 0.5 * g, state.params, gradient)
    assert float(metrics["loss"]) == pytest.approx(float(loss), rel=1e-6)
    assert float(metrics["grad_norm"]) == pytest.approx(norm(gradient), rel=1e-5)
    assert int(new.step) == 1
    for a, b in zip(jax.tree.leaves(new.params), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-7)


def test_dropout_of_a_step_depends_on_the_step_and_on_nothing_else():
    config = CONFIG.replace(residual_dropout=0.5)
    optimizer = optax.sgd(0.0)
    step = jax.jit(make_train_step(config, EXECUTION, optimizer, learning_rate=RATE, key=jax.random.key(1)))
    state, losses, rates = start(optimizer), [], []
    for _ in range(3):
        state, metrics = step(state, split_micro_batches(BATCH, 1))
        losses.append(float(metrics["loss"]))
        rates.append(float(metrics["learning_rate"]))
    assert len(set(losses)) == 3
    assert rates == [0.25, 0.375, 0.5]
    again = start(optimizer)._replace(step=jnp.int32(2))
    assert float(step(again, split_micro_batches(BATCH, 1))[1]["loss"]) == losses[2]


@pytest.mark.parametrize("rate", [float("inf"), 1e39], ids=["infinite update", "update beyond float32"])
def test_a_step_whose_update_is_not_finite_changes_nothing_and_stays_noted(rate):
    optimizer = optax.sgd(rate)
    state, step = start(optimizer), make_step(optimizer)
    bad, metrics = step(state, split_micro_batches(BATCH, 1))
    assert int(metrics["bad_step"]) == 0
    assert same(bad.params, state.params)
    assert int(bad.step) == 0
    later, metrics = step(bad, split_micro_batches(BATCH, 1))
    assert int(metrics["bad_step"]) == 0
    assert same(later.params, state.params)


def test_a_skipped_step_is_counted_and_otherwise_as_if_it_had_not_been():
    optimizer = optax.sgd(RATE)
    good = split_micro_batches(BATCH, 1)
    bad = good | {"weights_BT": np.full((1, 2, 4), np.nan, np.float32)}
    step = make_step(optimizer, non_finite="skip")

    def run(batches):
        state, seen = start(optimizer), []
        for batch in batches:
            state, metrics = step(state, batch)
            seen.append((float(metrics["learning_rate"]), int(metrics["skipped"]), int(metrics["bad_step"])))
        return state, seen

    state, seen = run([good, bad, good])
    expected, _ = run([good, good])
    assert seen == [(0.25, 0, -1), (0.375, 1, -1), (0.375, 1, -1)]
    assert (int(state.step), int(state.skipped)) == (3, 1)
    assert same((state.params, state.opt_state), (expected.params, expected.opt_state))


@pytest.mark.ci
def test_after_a_bad_step_even_a_good_one_changes_nothing():
    optimizer = optax.adamw(1e-3)
    state = start(optimizer)._replace(bad_step=jnp.int32(7))
    new, metrics = make_step(optimizer)(state, split_micro_batches(BATCH, 1))
    assert same(new, state)
    assert int(metrics["bad_step"]) == 7


@pytest.mark.ci
def test_the_first_tensor_that_is_not_finite_is_named():
    def name(params):
        return first_non_finite(CONFIG, EXECUTION, params, split_micro_batches(BATCH, 1), None)

    params = jaxgpt.init(CONFIG, key=jax.random.key(0))
    assert name(params) == "the optimizer's update"
    huge = jaxgpt.init(CONFIG, key=jax.random.key(0))
    huge["blocks_0"]["ln2"]["scale"] = huge["blocks_0"]["ln2"]["scale"] * 1e20
    huge["blocks_0"]["ffn"]["up"]["kernel"] = huge["blocks_0"]["ffn"]["up"]["kernel"] * 1e22
    assert name(huge) == "blocks_0/ffn/pre"
    broken = jaxgpt.init(CONFIG, key=jax.random.key(0))
    broken["blocks_0"]["ln1"]["scale"] = jnp.full(4, jnp.nan)
    assert name(broken) == "parameter blocks_0/ln1/scale"


@pytest.mark.ci
def test_a_gradient_that_overflows_behind_a_finite_loss_is_named():
    params = jaxgpt.init(CONFIG, key=jax.random.key(0))
    # The head sees tiny hidden states through huge weights: logits are moderate, what flows back is not.
    params["final_norm"]["scale"] = jnp.full(4, 2e-38)
    params["lm_head"]["kernel"] = 3e38 * jnp.sign(params["lm_head"]["kernel"])
    name = first_non_finite(CONFIG, EXECUTION, params, split_micro_batches(BATCH, 1), None)
    assert name == "gradient of final_norm/bias"
