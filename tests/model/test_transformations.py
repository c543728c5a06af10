"""init, apply and loss are pure: jit, grad, vmap, scan and checkpoint go over them; tests/promises has attention."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_numpy
from small_models import ARCHITECTURES, random_batch, random_ids, random_parameters

import jaxgpt

CONFIG = ARCHITECTURES["no biases, no positions"].replace(layers=1)  # few parameters: quick to compile
PARAMS, IDS, BATCH = random_parameters(CONFIG), random_ids(CONFIG), random_batch(CONFIG)
RNG = np.random.default_rng(0)


def close(got, wanted, tolerance=1e-5):
    assert reference_numpy.tree_error(jax.tree.leaves(got), jax.tree.leaves(wanted)) < tolerance


def only_loss(params, batch=BATCH):
    return jaxgpt.loss(CONFIG, params, batch)[0]


loss_and_gradients = jax.jit(jax.value_and_grad(only_loss))


def test_jit_takes_the_config_as_an_argument_or_as_a_static_one():
    plain = jaxgpt.apply(CONFIG, PARAMS, IDS)
    close(jax.jit(jaxgpt.apply)(CONFIG, PARAMS, IDS), plain)
    close(jax.jit(jaxgpt.apply, static_argnums=0)(CONFIG, PARAMS, IDS), plain)


@pytest.mark.ci
def test_vmap_over_a_batch_of_keys_is_init_of_each():
    config = CONFIG.replace(ffn_width=12)
    keys = jax.random.split(jax.random.key(0), 2)
    trees = jax.jit(jax.vmap(lambda key: jaxgpt.init(config, key=key)))(keys)
    close(jax.tree.map(lambda leaf: leaf[1], trees), jaxgpt.init(config, key=keys[1]), 1e-6)


@pytest.mark.ci
def test_vmap_over_a_batch_of_parameter_trees_is_loss_and_gradient_of_each():
    trees = [random_parameters(CONFIG, seed) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *trees)
    together = jax.jit(jax.vmap(jax.value_and_grad(only_loss)))(stacked)
    close(jax.tree.map(lambda leaf: leaf[1], together), loss_and_gradients(trees[1]))


@pytest.mark.ci
def test_vmap_over_a_stack_of_batches_and_dropout_keys():
    config = CONFIG.replace(residual_dropout=0.5)
    batches = jax.tree.map(lambda *x: np.stack(x), BATCH, random_batch(CONFIG, seed=1))
    keys = jax.random.split(jax.random.key(0), 2)

    def one(batch, key):
        return jaxgpt.loss(config, PARAMS, batch, dropout_key=key)[0]

    together = jax.jit(jax.vmap(one))(batches, keys)
    close(together[0], jax.jit(one)(BATCH, keys[0]))


@pytest.mark.ci
def test_scan_over_steps_of_descent_is_a_loop_over_them():
    def step(params, _):
        value, gradient = jax.value_and_grad(only_loss)(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient), value

    params, losses = jax.jit(lambda p: jax.lax.scan(step, p, None, length=3))(jax.tree.map(jnp.asarray, PARAMS))
    looped, values = PARAMS, []
    for _ in range(3):
        value, gradient = loss_and_gradients(looped)
        looped = jax.tree.map(lambda p, g: p - 0.1 * g, looped, gradient)
        values.append(value)
    close(losses, np.stack(values))
    close(params, looped)
    assert losses[2] < losses[0]


@pytest.mark.ci
def test_checkpoint_and_forward_mode_agree_with_reverse_mode():
    tangent = jax.tree.map(lambda p: RNG.standard_normal(p.shape).astype(np.float32), PARAMS)

    @jax.jit
    def two_ways(params):
        return jax.grad(jax.checkpoint(only_loss))(params), jax.jvp(only_loss, (params,), (tangent,))[1]

    recomputed, forward = two_ways(jax.tree.map(jnp.asarray, PARAMS))
    _, gradient = loss_and_gradients(PARAMS)
    close(recomputed, gradient, 1e-6)
    products = jax.tree.map(lambda g, t: (np.asarray(g, np.float64) * t).sum(), gradient, tangent)
    np.testing.assert_allclose(forward, sum(jax.tree.leaves(products)), rtol=1e-4)


def test_eval_shape_allocates_nothing():
    shape = jax.eval_shape(lambda p, i: jaxgpt.apply(CONFIG, p, i), PARAMS, jax.ShapeDtypeStruct((8, 6), jnp.int32))
    assert (shape.shape, shape.dtype) == ((8, 6, 11), jnp.float32)
