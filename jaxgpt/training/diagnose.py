"""Which tensor of a failed step was the first that was not finite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgpt.config import ExecutionConfig, ModelConfig
from jaxgpt.model.functional import apply, inputs_of
from jaxgpt.model.parameters import Params

from .step import summed_gradients

UPDATE = "the optimizer's update"  # what is to blame where everything before it is finite


def _is_finite(array: jax.Array) -> bool:
    return bool(np.isfinite(np.asarray(array, np.float32)).all())


def _first_bad_gradient(gradient: Params) -> str | None:
    """Return the path of the first gradient that is not finite, going backward through the model."""
    paths = [
        ("/".join(entry.key for entry in path), leaf)
        for path, leaf in jax.tree_util.tree_flatten_with_path(gradient)[0]
    ]
    bad = [path for path, leaf in paths if not _is_finite(leaf)]
    return max(bad, key=_depth) if bad else None


def _depth(path: str) -> int:
    """Order of use in the forward pass: embeddings, blocks, final norm, head."""
    top = path.split("/")[0]
    if top.startswith("blocks_"):
        return int(top.removeprefix("blocks_"))
    return -1 if top.endswith("_embedding") else 10**9


def first_non_finite(
    model: ModelConfig,
    execution: ExecutionConfig,
    params: Params,
    micro_batches: Mapping[str, Any],
    step_key: jax.Array | None,
) -> str:
    """Run a failed step again with every intermediate visible and name the first tensor that is not finite.

    Order: parameters, the forward pass without dropout, gradients (the last layer's first), and otherwise the update.

    Args:
        model, execution: As in the failed step.
        params: The parameters before it.
        micro_batches: Its batch, [K,B,T].
        step_key: Its dropout key, or None.
    """
    for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
        if not _is_finite(leaf):
            return "parameter " + "/".join(entry.key for entry in path)
    visible = ExecutionConfig(compute_dtype=execution.compute_dtype)
    for i in range(len(micro_batches["token_ids_BT"])):
        micro = {name: jnp.asarray(field[i]) for name, field in micro_batches.items()}
        _, seen = apply(model, params, **inputs_of(micro), execution=visible, trace=True)
        for name, value in seen.items():
            if not _is_finite(value):
                return name
    gradient, loss_sum, _ = summed_gradients(model, execution, params, micro_batches, step_key)
    if not _is_finite(loss_sum):
        return "loss"
    bad = _first_bad_gradient(gradient)
    return f"gradient of {bad}" if bad else UPDATE
