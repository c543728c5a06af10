"""Strided windows: every token counted once, with the context that the stride promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgpt.config import RequestError
from jaxgpt.data.examples import Windows
from jaxgpt.data.strided import StridedWindows


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 120), st.integers(1, 12), st.integers(1, 12))
def test_each_token_is_predicted_once_with_enough_before_it(tokens, context, stride):
    if tokens <= context or stride > context:
        return
    windows = StridedWindows(np.arange(tokens, dtype=np.int32), context_length=context, stride=stride)
    batch = windows.batch(windows.tiling, seed=0, draws_B=windows.tiling)
    counted = batch["weights_BT"] == 1
    assert batch["target_ids_BT"][counted].tolist() == list(range(1, windows.covered + 1))
    before = np.broadcast_to(np.arange(context), counted.shape)
    assert (before[1:][counted[1:]] >= context - stride).all()
    assert windows.covered + windows.left_over == tokens - 1
    assert 0 <= windows.left_over < stride


def test_a_stride_of_the_context_is_the_tiling():
    ids = np.random.default_rng(0).integers(0, 9, 50).astype(np.int32)
    strided, plain = StridedWindows(ids, context_length=8, stride=8), Windows(ids, context_length=8)
    for name, rows in plain.batch(plain.tiling, seed=0, draws_B=plain.tiling).items():
        np.testing.assert_array_equal(rows, strided.batch(strided.tiling, seed=0, draws_B=strided.tiling)[name])
    assert strided.describe() == "6 windows of 8, one every 8, 48 tokens predicted, 1 left over"


@pytest.mark.parametrize("stride", [0, -1, 9])
def test_a_stride_that_would_leave_tokens_out_is_refused(stride):
    with pytest.raises(RequestError, match=f"stride: expected 1 to 8, the context, got {stride}"):
        StridedWindows(np.zeros(50, np.int32), context_length=8, stride=stride)
