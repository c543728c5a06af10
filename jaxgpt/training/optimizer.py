"""AdamW with warm-up, cosine decay and clipping, put together from Optax."""

from __future__ import annotations

import optax

from jaxgpt.config import ModelConfig, OptimizerConfig
from jaxgpt.model.parameters import decay_mask


def learning_rate_schedule(config: OptimizerConfig, steps: int) -> optax.Schedule:
    """Return the learning rate as a function of the step, counted from 0.

    Step i of the warm-up uses peak * (i + 1) / (warmup + 1), so the first step already learns; then half a cosine
    falls from the peak at step `warmup_steps` to `final_learning_rate` at step `steps` (the step after the last).

    Example:
        >>> schedule = learning_rate_schedule(OptimizerConfig(warmup_steps=1), steps=100)
        >>> round(float(schedule(0)), 6), round(float(schedule(1)), 6), round(float(schedule(100)), 6)
        (0.0005, 0.001, 0.0001)
    """
    peak, warmup = config.learning_rate, config.warmup_steps
    cosine = optax.cosine_decay_schedule(peak, max(steps - warmup, 1), alpha=config.final_learning_rate / peak)
    if warmup == 0:
        return cosine
    rise = optax.linear_schedule(peak / (warmup + 1), peak, warmup)
    return optax.join_schedules([rise, cosine], [warmup])


def make_optimizer(config: OptimizerConfig, model: ModelConfig, steps: int) -> optax.GradientTransformation:
    """Return clip -> Adam -> decoupled weight decay -> learning rate (Loshchilov & Hutter 2019, arXiv 1711.05101).

    Weight decay applies where each parameter's `ParamSpec` says so: matrices and embeddings, not biases and norms.
    """
    clip = optax.identity() if config.clip_norm is None else optax.clip_by_global_norm(config.clip_norm)
    return optax.chain(
        clip,
        optax.scale_by_adam(b1=config.beta1, b2=config.beta2, eps=config.epsilon),
        optax.add_decayed_weights(config.weight_decay, mask=decay_mask(model)),
        optax.scale_by_learning_rate(learning_rate_schedule(config, steps)),
    )
