"""The same training on 1 and on 8 CPU devices; prints how far apart they end. Run by test_devices.py."""

import json
import sys
from pathlib import Path

import jax

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_default_matmul_precision", "highest")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np  # noqa: E402
import optax  # noqa: E402
from small_models import random_parameters  # noqa: E402
from small_training import RATE, largest, largest_difference, unequal_batch  # noqa: E402
from small_training import adamw as plain_adamw  # noqa: E402

from jaxgpt import ExecutionConfig, ModelConfig  # noqa: E402
from jaxgpt.sharding.mesh import data_mesh, place, replicated, split_rows  # noqa: E402
from jaxgpt.training.step import initial_state, make_train_step, split_micro_batches  # noqa: E402

CONFIG = ModelConfig(vocab_size=11, context_length=8, width=12, layers=1, heads=3)
DROPPING = CONFIG.replace(embedding_dropout=0.2, attention_dropout=0.3, residual_dropout=0.1)
PARAMS = random_parameters(CONFIG, spread=0.1)
ROWS, MICRO_BATCHES, STEPS = 16, 2, 3


def remember():
    """Pass the gradient on and keep it as the state."""
    return optax.GradientTransformation(
        init=lambda params: jax.tree.map(np.zeros_like, params),
        update=lambda gradient, state, params: (gradient,) * 2,
    )


def adamw(epsilon):
    return optax.chain(remember(), plain_adamw(epsilon))


def sgd():
    return optax.chain(remember(), optax.sgd(0.1))


def trainer(model, optimizer, devices):
    """Return a function of an optimizer's start: (the first gradient, the parameters after three steps)."""
    mesh = data_mesh(ROWS // MICRO_BATCHES, devices)
    everywhere = replicated(mesh)
    rate = optax.constant_schedule(RATE)
    step = make_train_step(model, ExecutionConfig(), optimizer, learning_rate=rate, key=jax.random.key(1))
    step = jax.jit(step, out_shardings=everywhere)

    def run(start):
        state, gradients = place(initial_state(PARAMS, start), everywhere), []
        for seed in range(STEPS):
            micro_batches = split_micro_batches(unequal_batch(CONFIG, ROWS, seed), MICRO_BATCHES)
            micro_batches = place(micro_batches, split_rows(mesh, axis=1))
            assert len(micro_batches["token_ids_BT"].sharding.device_set) == devices
            state, _ = step(state, micro_batches)
            gradients.append(jax.device_get(state.opt_state[0]))
        return gradients[0], jax.device_get(state.params)

    return run


def relative(pair):
    tree, other = pair
    return largest_difference(tree, other) / largest(other)


def without_key_biases(params):
    params["blocks_0"]["attention"]["k"].pop("bias")
    return params


def both(model, optimizer):
    """Return a function of an optimizer's start: the pair of gradients and the pair of parameters, on 8 and 1."""
    eight, one = (trainer(model, optimizer, devices) for devices in (8, 1))
    return lambda start: zip(eight(start), one(start), strict=True)


dropping_gradients, dropping_params = both(DROPPING, sgd())(sgd())
plain = both(CONFIG, adamw(1e-3))
gradients, large = plain(adamw(1e-3))
_, default = plain(adamw(1e-8))
report = {
    "devices": len(jax.devices()),
    "gradients": relative(gradients),
    "gradients with dropout": relative(dropping_gradients),
    "what dropout changes": relative((dropping_gradients[0], gradients[0])),
    "sgd with dropout": relative(dropping_params),
    "adamw with a large epsilon": relative(large),
    "default adamw, in learning rates": largest_difference(*map(without_key_biases, default)) / RATE,
    "learned": [largest_difference(params[0], PARAMS) for params in (dropping_params, large)],
}
print(json.dumps(report))
