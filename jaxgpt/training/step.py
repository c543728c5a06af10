"""One optimizer step as one compiled program: gradients over micro-batches, update, guard against the non-finite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxgpt.config import ExecutionConfig, ModelConfig
from jaxgpt.model.functional import loss
from jaxgpt.model.parameters import Params

_DROPOUT = 0  # purpose of a key inside a micro-batch
NO_BAD_STEP = -1


class TrainState(NamedTuple):
    """All that training carries from step to step.

    Attributes:
        step: Steps done, int32.
        params: The parameter tree.
        opt_state: Optax's state.
        bad_step: The step whose loss, gradient or update was not finite, or -1. It is sticky: from then on no step
            changes anything, because the host learns of it a step late.
        skipped: How many of the steps done were not finite and were left out, int32.
    """

    step: jax.Array
    params: Params
    opt_state: Any
    bad_step: jax.Array
    skipped: jax.Array


Metrics = dict[str, jax.Array]
TrainStep = Callable[[TrainState, Mapping[str, jax.Array]], tuple[TrainState, Metrics]]


def initial_state(params: Params, optimizer: optax.GradientTransformation) -> TrainState:
    """Return the state before the first step."""
    return TrainState(jnp.int32(0), params, optimizer.init(params), jnp.int32(NO_BAD_STEP), jnp.int32(0))


def split_micro_batches(batch: Mapping[str, jax.Array], count: int) -> dict[str, jax.Array]:
    """Reshape each field from [B,T] to [K,B/K,T]."""
    return {name: x.reshape(count, -1, *x.shape[1:]) for name, x in batch.items()}


def summed_gradients(
    model: ModelConfig,
    execution: ExecutionConfig,
    params: Params,
    micro_batches: Mapping[str, jax.Array],
    key: jax.Array | None,
) -> tuple[Params, jax.Array, jax.Array]:
    """Return (gradient of the summed loss, summed loss, token count) over micro-batches [K,B,T].

    Sums, not means: dividing once by the total count gives the mean over all counted tokens, however unevenly the
    micro-batches count.
    """

    def one(micro: Mapping[str, jax.Array], index: jax.Array) -> tuple[Params, jax.Array, jax.Array]:
        def summed_loss(params: Params) -> tuple[jax.Array, jax.Array]:
            micro_key = None if key is None else jax.random.fold_in(jax.random.fold_in(key, index), _DROPOUT)
            _, metrics = loss(model, params, micro, dropout_key=micro_key, execution=execution)
            return metrics["loss_sum"], metrics["token_count"]

        (loss_sum, count), gradient = jax.value_and_grad(summed_loss, has_aux=True)(params)
        return gradient, loss_sum, count

    K = micro_batches["token_ids_BT"].shape[0]
    if K == 1:
        return one({name: x[0] for name, x in micro_batches.items()}, jnp.int32(0))

    def add(total: Any, item: Any) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, one(*item)), None

    nothing = (jax.tree.map(jnp.zeros_like, params), jnp.float32(0), jnp.float32(0))
    return jax.lax.scan(add, nothing, (dict(micro_batches), jnp.arange(K)))[0]


def dropout_key(model: ModelConfig, key: jax.Array, step: jax.Array | int) -> jax.Array | None:
    """Return a step's key, derived from the run's; None for a model without dropout."""
    return jax.random.fold_in(key, step) if model.has_dropout else None


def make_train_step(
    model: ModelConfig,
    execution: ExecutionConfig,
    optimizer: optax.GradientTransformation,
    *,
    learning_rate: optax.Schedule,
    key: jax.Array,
    non_finite: Literal["stop", "skip"] = "stop",
) -> TrainStep:
    """Return the pure function (state, micro-batches [K,B,T]) -> (state, metrics).

    Args:
        model: The architecture.
        execution: How to run the model.
        optimizer: Any Optax transformation.
        learning_rate: The schedule that the optimizer follows, for the metrics.
        key: The run's base key; a step's dropout uses fold_in(step), micro-batch, purpose, layer, site.
        non_finite: What becomes of a step whose loss, gradient or update is not finite. It changes neither
            parameters nor the optimizer's state; "stop" then halts, and `bad_step` tells the step; "skip" counts it
            in `skipped` and goes on to the next batch.

    Returns:
        The step. Its metrics: `loss` (nats per counted token, before the update), `grad_norm` (before clipping),
        `learning_rate`, `token_count`, `bad_step`, `skipped`. The schedule counts updates, as the bias correction of
        Adam does: a skipped step does not move it.
    """

    def train_step(state: TrainState, micro_batches: Mapping[str, jax.Array]) -> tuple[TrainState, Metrics]:
        step_key = dropout_key(model, key, state.step)
        gradient, loss_sum, count = summed_gradients(model, execution, state.params, micro_batches, step_key)
        divisor = jnp.where(count == 0, 1, count)
        gradient = jax.tree.map(lambda g: g / divisor, gradient)
        updates, opt_state = optimizer.update(gradient, state.opt_state, state.params)
        grad_norm, update_norm = optax.tree.norm(gradient), optax.tree.norm(updates)

        finite = jnp.isfinite(loss_sum) & jnp.isfinite(grad_norm) & jnp.isfinite(update_norm)
        running = state.bad_step == NO_BAD_STEP
        new = (optax.apply_updates(state.params, updates), opt_state)
        params, opt_state = jax.tree.map(
            lambda a, b: jnp.where(running & finite, a, b), new, (state.params, state.opt_state)
        )
        if non_finite == "skip":
            done, bad_step, skipped = running, state.bad_step, state.skipped + (running & ~finite)
        else:
            done, skipped = running & finite, state.skipped
            bad_step = jnp.where(running & ~finite, state.step, state.bad_step)
        metrics = {
            "loss": loss_sum / divisor,
            "grad_norm": grad_norm,
            "learning_rate": learning_rate(state.step - state.skipped),
            "token_count": count,
            "bad_step": bad_step,
            "skipped": skipped,
        }
        return TrainState(state.step + done, params, opt_state, bad_step, skipped), metrics

    return train_step
