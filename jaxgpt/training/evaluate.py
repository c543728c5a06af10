"""Evaluation: the mean loss of a split, counted once per token, with its standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxgpt.config import ExecutionConfig, ModelConfig
from jaxgpt.model.functional import apply, check_batch, inputs_of
from jaxgpt.ops.cross_entropy import mean_over_tokens, token_cross_entropy

Batch = Mapping[str, Any]
EvaluationStep = Callable[[Mapping[str, Any], Batch], tuple[jax.Array, jax.Array]]


class Estimate(NamedTuple):
    """A mean over tokens.

    Attributes:
        loss: Nats per token.
        standard_error: Of that mean, from the spread between windows; NaN with a single window.
        tokens: Tokens counted.
    """

    loss: float
    standard_error: float
    tokens: int


def make_evaluation_step(model: ModelConfig, execution: ExecutionConfig) -> EvaluationStep:
    """Return the pure function (params, batch [B,T]) -> (loss sums, token counts), one per row, [B]."""

    def evaluation_step(params: Mapping[str, Any], batch: Batch) -> tuple[jax.Array, jax.Array]:
        check_batch(batch)
        logits_BTV = apply(model, params, **inputs_of(batch), execution=execution)
        nats_BT = token_cross_entropy(logits_BTV, batch["target_ids_BT"])
        _, sums_B, counts_B = jax.vmap(mean_over_tokens)(nats_BT, batch["weights_BT"])
        return sums_B, counts_B

    return evaluation_step


def evaluate(step: EvaluationStep, params: Mapping[str, Any], batches: Iterable[Batch]) -> Estimate:
    """Return the mean loss over all counted tokens of `batches`.

    Sums are taken in float64 on the host, row by row, so the result does not depend on how rows are batched beyond
    the rounding of the rows themselves. Rows that count nothing (padding of the last batch) are left out.

    Args:
        step: From `make_evaluation_step`, compiled.
        params: The parameters.
        batches: Batches of one shape.
    """
    pending = [step(params, batch) for batch in batches]
    sums, counts = (np.concatenate(parts).astype(np.float64) for parts in zip(*jax.device_get(pending), strict=True))
    sums, counts = sums[counts > 0], counts[counts > 0]
    total = counts.sum()
    mean = sums.sum() / total
    windows = len(sums)
    residuals = sums - mean * counts
    error = np.sqrt((residuals**2).sum() * windows / (windows - 1)) / total if windows > 1 else np.nan
    return Estimate(float(mean), float(error), int(total))
