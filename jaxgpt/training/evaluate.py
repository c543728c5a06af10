"""Evaluation: the mean loss of a split, counted once per token, with its standard error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxgpt.config import ExecutionConfig, ModelConfig, RequestError
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
        parts: Of a mixture the estimate of each file, by its name; the mean weighs them as training does.
    """

    loss: float
    standard_error: float
    tokens: int
    parts: tuple[tuple[str, Estimate], ...] = ()


def weighted(estimates: Sequence[Estimate], shares: Sequence[float], names: Sequence[str]) -> Estimate:
    """Return the mean of several files' losses by their shares, which sum to 1; the files are independent.

    Example:
        >>> whole = weighted([Estimate(1.0, 0.3, 10), Estimate(3.0, 0.4, 90)], [0.5, 0.5], ["a", "b"])
        >>> whole.loss, round(whole.standard_error, 9), whole.tokens
        (2.0, 0.25, 100)
    """
    pairs = list(zip(estimates, shares, strict=True))
    return Estimate(
        sum(share * estimate.loss for estimate, share in pairs),
        math.sqrt(sum((share * estimate.standard_error) ** 2 for estimate, share in pairs)),
        sum(estimate.tokens for estimate in estimates),
        tuple(zip(names, estimates, strict=True)),
    )


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

    Args:
        step: From `make_evaluation_step`, compiled.
        params: The parameters.
        batches: Batches of one shape.
    """
    nats_N, tokens_N = row_sums(step, params, batches)
    counted_N = tokens_N > 0
    return Estimate(*ratio(nats_N[counted_N], tokens_N[counted_N]), int(tokens_N.sum()))


def row_sums(
    step: EvaluationStep, params: Mapping[str, Any], batches: Iterable[Batch]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the loss sum and the number of counted tokens of each row of `batches`, float64 [N] each.

    The sum over rows is left to the host, so a result does not depend on how rows are batched beyond the rounding of
    the rows themselves. A row that counts nothing (padding of the last batch) has 0 tokens.
    """
    rows, running = [], None
    for batch in batches:
        started = step(params, batch)
        if running is not None:  # one batch late: the device never waits, nor do its batches pile up
            rows.append(jax.device_get(running))
        running = started
    rows.append(jax.device_get(running))
    nats, tokens = zip(*rows, strict=True)
    return np.concatenate(nats).astype(np.float64), np.concatenate(tokens).astype(np.float64)


def ratio(sums_N: np.ndarray, sizes_N: np.ndarray) -> tuple[float, float]:
    """Return the mean per unit of size over N windows, and its standard error from the spread between them.

    With a single window the standard error is NaN.

    Args:
        sums_N: what is averaged, summed over each window.
        sizes_N: how much each window counts.

    Raises:
        RequestError: nothing counts.

    Example:
        >>> ratio(np.array([1.0, 3.0]), np.array([1.0, 1.0]))
        (2.0, 1.0)
    """
    total, windows = sizes_N.sum(), len(sums_N)
    if not total:
        raise RequestError("there is no mean of nothing: no token of these windows counts; give more of the text")
    mean = sums_N.sum() / total
    residuals_N = sums_N - mean * sizes_N
    error = np.sqrt((residuals_N**2).sum() * windows / (windows - 1)) / total if windows > 1 else np.nan
    return float(mean), float(error)
