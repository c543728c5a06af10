"""An evaluation is one mean over all counted tokens, however the windows are batched."""

import jax
import numpy as np
import pytest

import jaxgpt
from jaxgpt.config import ExecutionConfig, RequestError
from jaxgpt.data.batches import evaluation_batches
from jaxgpt.data.examples import Windows
from jaxgpt.training.evaluate import evaluate, make_evaluation_step

CONFIG = jaxgpt.ModelConfig.preset("minigpt")
IDS = np.random.default_rng(0).integers(0, 5, 203).astype(np.int32)
PARAMS = jax.tree.map(lambda p: p * 20, jaxgpt.init(CONFIG, key=jax.random.key(0)))
APPLY = jax.jit(jaxgpt.apply)
STEP = jax.jit(make_evaluation_step(CONFIG, ExecutionConfig()))


def by_hand():
    """Mean loss of each whole window of 8, one window at a time, in float64."""
    losses = []
    for start in range(0, 200, 8):
        window = IDS[start : start + 9]
        logits = np.asarray(APPLY(CONFIG, PARAMS, window[None, :-1])[0], np.float64)
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        losses.append(-log_p[np.arange(8), window[1:]].mean())
    return np.array(losses)


@pytest.mark.parametrize("batch_size", [1, 4, 25, 32])
def test_the_mean_and_its_standard_error_do_not_depend_on_the_batch_size(batch_size):
    batches = evaluation_batches(Windows(IDS, context_length=8), batch_size=batch_size)
    result = evaluate(STEP, PARAMS, batches)
    losses = by_hand()
    assert result.tokens == 200
    assert result.loss == pytest.approx(losses.mean(), rel=1e-6)
    assert result.standard_error == pytest.approx(losses.std(ddof=1) / np.sqrt(25), rel=1e-5)


def test_positions_of_weight_zero_are_left_out():
    batch = next(evaluation_batches(Windows(IDS, context_length=8), batch_size=2))
    half = batch | {"weights_BT": np.array([[1] * 8, [1] * 4 + [0] * 4], np.float32)}
    assert evaluate(STEP, PARAMS, [half]).tokens == 12
    poisoned = half | {"target_ids_BT": np.where(half["weights_BT"] == 0, 4, half["target_ids_BT"])}
    assert evaluate(STEP, PARAMS, [poisoned]).loss == evaluate(STEP, PARAMS, [half]).loss


def test_nothing_that_counts_has_no_mean():
    batch = next(evaluation_batches(Windows(IDS, context_length=8), batch_size=2))
    with pytest.raises(RequestError, match="there is no mean of nothing: no token of these windows counts"):
        evaluate(STEP, PARAMS, [batch | {"weights_BT": np.zeros((2, 8), np.float32)}])
