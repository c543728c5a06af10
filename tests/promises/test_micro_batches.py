"""k micro-batches = one batch, also with unequal counts of tokens.

Gradients and parameters within 1e-6 of the largest; with AdamW's own epsilon within 1e-2 of the learning rate, except
the biases of the keys, whose exact gradient is zero.
"""

import jax
import optax
import pytest
from small_models import random_parameters
from small_training import RATE, adamw, largest, largest_difference, unequal_batch

import jaxgpt
from jaxgpt import ExecutionConfig, ModelConfig
from jaxgpt.config import OptimizerConfig
from jaxgpt.training.optimizer import make_optimizer
from jaxgpt.training.step import initial_state, make_train_step, split_micro_batches, summed_gradients

CONFIG = ModelConfig(vocab_size=11, context_length=8, width=12, layers=1, heads=3)
EXECUTION = ExecutionConfig()
PARAMS = random_parameters(CONFIG, spread=0.1)
ROWS, STEPS = 8, 3
UNDECAYED = OptimizerConfig(
    learning_rate=RATE, final_learning_rate=RATE, warmup_steps=0, weight_decay=0.0, clip_norm=0.5
)
OPTIMIZERS = {
    "sgd": optax.sgd(0.1),
    "adamw with a large epsilon": adamw(1e-3),
    "a run's optimizer with a large epsilon": make_optimizer(UNDECAYED.replace(epsilon=1e-3), CONFIG, 100),
}


def batch(seed):
    """The second quarter of the rows counts nothing at all."""
    batch = unequal_batch(CONFIG, ROWS, seed)
    batch["weights_BT"][2:4] = 0
    return batch


BATCHES = [batch(seed) for seed in range(STEPS)]


def mean_gradient(micro_batches):
    summed = jax.jit(summed_gradients, static_argnums=(0, 1))(CONFIG, EXECUTION, PARAMS, micro_batches, None)
    gradient, loss_sum, count = jax.device_get(summed)
    return jax.tree.map(lambda g: g / count, gradient), loss_sum / count


def trained(optimizer, count):
    """Return the parameters after three steps with `count` micro-batches each."""
    rate = optax.constant_schedule(RATE)
    step = jax.jit(make_train_step(CONFIG, EXECUTION, optimizer, learning_rate=rate, key=jax.random.key(0)))
    state = initial_state(PARAMS, optimizer)
    for one in BATCHES:
        state, _ = step(state, split_micro_batches(one, count))
    return state.params


def keys(tree):
    return tree["blocks_0"]["attention"]["k"]


def test_the_batches_count_unequally():
    counts = split_micro_batches(BATCHES[0], 4)["weights_BT"].sum(axis=(1, 2)).tolist()
    assert len(set(counts)) == 4
    assert 0 in counts


@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.ci), 8])
def test_gradients_and_loss_of_micro_batches_are_those_of_the_batch(count):
    expected, loss = mean_gradient(split_micro_batches(BATCHES[0], 1))
    gradient, micro_loss = mean_gradient(split_micro_batches(BATCHES[0], count))
    assert largest_difference(gradient, expected) <= 1e-6 * largest(expected)
    assert float(micro_loss) == pytest.approx(float(loss), rel=1e-6)


@pytest.mark.ci
def test_gradients_of_the_batch_are_those_of_the_mean_loss():
    gradient, loss = mean_gradient(split_micro_batches(BATCHES[0], 4))
    value, expected = jax.jit(jax.value_and_grad(lambda params: jaxgpt.loss(CONFIG, params, BATCHES[0])[0]))(PARAMS)
    assert float(loss) == pytest.approx(float(value), rel=1e-6)
    assert largest_difference(gradient, expected) <= 1e-6 * largest(expected)


@pytest.mark.ci
@pytest.mark.parametrize(
    "name", ["sgd", *(pytest.param(name, marks=pytest.mark.ci) for name in list(OPTIMIZERS)[1:])]
)
def test_parameters_after_three_steps_are_the_same(name):
    expected = trained(OPTIMIZERS[name], 1)
    assert largest_difference(expected, PARAMS) > 1e-3  # something was learned
    assert largest_difference(trained(OPTIMIZERS[name], 4), expected) <= 1e-6 * largest(expected)


def test_the_biases_of_the_keys_have_no_gradient_but_rounding():
    # A bias on every key shifts all scores of a query alike, and softmax does not see that.
    gradient, _ = mean_gradient(split_micro_batches(BATCHES[0], 1))
    assert largest(keys(gradient)["bias"]) <= 1e-6 * largest(gradient)


@pytest.mark.ci
def test_parameters_after_three_steps_of_default_adamw_differ_by_little_of_the_learning_rate():
    # Its epsilon of 1e-8 lets Adam blow rounding up to steps where the gradient itself is zero: in the keys' biases.
    one, four = trained(adamw(1e-8), 1), trained(adamw(1e-8), 4)
    for params in (one, four):
        keys(params).pop("bias")
    assert largest_difference(one, four) <= 1e-2 * RATE
