"""The optimizer is AdamW with warm-up, cosine, clipping and decay by ParamSpec, as float64 NumPy computes it."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxgpt
from jaxgpt.config import OptimizerConfig, RequestError, RunConfig, doubts
from jaxgpt.training.optimizer import learning_rate_schedule, make_optimizer

CONFIG = jaxgpt.ModelConfig.preset("minigpt")


def expected_rate(step, peak, final, warmup, steps):
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    progress = (step - warmup) / (steps - warmup)
    return final + (peak - final) * 0.5 * (1 + math.cos(math.pi * progress))


@pytest.mark.parametrize("refused", [{"epsilon": 1e-40}, {"beta1": 1 - 1e-9}, {"beta2": 1 - 1e-9}], ids=str)
def test_what_float32_cannot_hold_is_refused_since_adams_first_update_would_break(refused):
    with pytest.raises(RequestError, match=r"in float32"):
        OptimizerConfig(**refused)
    names = {"epsilon": "eps", "beta1": "b1", "beta2": "b2"}
    adam = optax.scale_by_adam(**{names[name]: value for name, value in refused.items()})
    gradient = jnp.array([0.0, 1.0])  # a parameter that the first batch does not touch, and one that it does
    update, _ = adam.update(gradient, adam.init(gradient))
    assert not np.isfinite(update).all() or not np.any(update)


def test_what_only_may_break_a_run_is_a_doubt():
    (decay,) = doubts(RunConfig(optimizer=OptimizerConfig(weight_decay=2e3)))
    assert "optimizer.learning_rate x optimizer.weight_decay is 2: " in decay
    (betas,) = doubts(RunConfig(optimizer=OptimizerConfig(beta1=0.96, beta2=0.92)))
    assert "optimizer.beta1 0.96 is above the square root of optimizer.beta2 0.92" in betas
    assert doubts(RunConfig(optimizer=OptimizerConfig(beta1=0.95, beta2=0.92, weight_decay=1e3))) == []


@pytest.mark.parametrize("warmup", [0, 1, 100])
def test_the_learning_rate_rises_from_a_first_step_that_learns_and_falls_to_the_final_value(warmup):
    schedule = learning_rate_schedule(OptimizerConfig(warmup_steps=warmup), steps=2000)
    for step in (0, 1, 50, 99, 100, 101, 1000, 1999, 2000):
        assert float(schedule(step)) == pytest.approx(expected_rate(step, 1e-3, 1e-4, warmup, 2000), rel=1e-5)
    assert float(schedule(0)) > 0


def numpy_adamw(params, gradients, config, decayed, steps):
    """AdamW after Loshchilov & Hutter, global-norm clipping first, in float64."""
    m = {path: np.zeros_like(p) for path, p in params.items()}
    v = {path: np.zeros_like(p) for path, p in params.items()}
    for step in range(steps):
        norm = math.sqrt(sum((g**2).sum() for g in gradients[step].values()))
        factor = min(1.0, config.clip_norm / norm)
        rate = expected_rate(step, config.learning_rate, config.final_learning_rate, config.warmup_steps, 10)
        for path, p in params.items():
            g = gradients[step][path] * factor
            m[path] = config.beta1 * m[path] + (1 - config.beta1) * g
            v[path] = config.beta2 * v[path] + (1 - config.beta2) * g**2
            m_hat = m[path] / (1 - config.beta1 ** (step + 1))
            v_hat = v[path] / (1 - config.beta2 ** (step + 1))
            decay = config.weight_decay * p if path in decayed else 0
            params[path] = p - rate * (m_hat / (np.sqrt(v_hat) + config.epsilon) + decay)
    return params


def flat(tree):
    return {
        jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
    }


def test_five_updates_are_those_of_numpy():
    config = OptimizerConfig(warmup_steps=2, weight_decay=0.5, clip_norm=0.7)
    params = jaxgpt.init(CONFIG, key=jax.random.key(0))
    rng = np.random.default_rng(0)
    gradients = [
        jax.tree.map(lambda p, scale=scale: np.float32(scale * rng.normal(size=p.shape)), params)
        for scale in (1e-3, 0.1, 1.0, 0.01, 3.0)  # below and above the clipping norm
    ]
    names = flat(params)
    decayed = {path for path in names if "kernel" in path or "embedding" in path}
    assert 0 < len(decayed) < len(names)
    wide = {path: p.astype(np.float64) for path, p in names.items()}
    expected = numpy_adamw(
        wide, [flat(jax.tree.map(lambda g: g.astype(float), g)) for g in gradients], config, decayed, 5
    )

    optimizer = make_optimizer(config, CONFIG, steps=10)
    state = optimizer.init(params)
    update = jax.jit(optimizer.update)
    for gradient in gradients:
        updates, state = update(gradient, state, params)
        params = jax.tree.map(np.add, params, updates)
    for path, value in flat(params).items():
        np.testing.assert_allclose(value, expected[path], atol=2e-6, err_msg=path)


def test_without_a_clipping_norm_gradients_pass_whole():
    whole = make_optimizer(OptimizerConfig(clip_norm=None), CONFIG, steps=10)
    # Adam divides by the gradient's own size: what tells clipping apart is its first moment.
    params = jaxgpt.init(CONFIG, key=jax.random.key(0))
    gradient = jax.tree.map(lambda p: jnp.full_like(p, 100.0), params)
    _, state = jax.jit(whole.update)(gradient, whole.init(params), params)
    assert float(state[1].mu["final_norm"]["scale"][0]) == pytest.approx(10.0)  # (1 - 0.9) x 100
