"""The yardstick of the benchmark agrees with the one of the tests, which holds the whole square at once."""

import math

import numpy as np
import pytest
from reference_numpy import attention, attention_gradients, relative_error

from jaxgpt.benchmark import exact


@pytest.mark.parametrize("mask", ["causal", "full"])
def test_attention_block_by_block_is_attention(monkeypatch, mask):
    monkeypatch.setattr(exact, "_QUERIES", 3)
    rng = np.random.default_rng(0)
    q, d_out = rng.standard_normal((2, 1, 7, 2, 4))  # two query heads
    k, v = rng.standard_normal((2, 1, 7, 1, 4))  # of one key head
    both = [np.repeat(x, 2, axis=2) for x in (k, v)]
    scale = 1 / math.sqrt(4)
    got = exact.exact_head(
        q[0].swapaxes(0, 1), k[0, :, 0], v[0, :, 0], d_out[0].swapaxes(0, 1), causal=mask == "causal"
    )
    d_q, d_k, d_v = attention_gradients(q, *both, mask, scale, d_out)
    assert relative_error(got.out_GTD.swapaxes(0, 1), attention(q, *both, mask, scale)[0]) < 1e-14
    assert relative_error(got.d_q_GTD.swapaxes(0, 1), d_q[0]) < 1e-14
    assert relative_error(got.d_k_SD, d_k[0].sum(1)) < 1e-14
    assert relative_error(got.d_v_SD, d_v[0].sum(1)) < 1e-14
    scores = abs(scale * np.einsum("bthd,bshd->bhts", q, both[0]))
    least = scores if mask == "full" else np.tril(scores)  # a block of queries may see more than each of them
    assert least.max() - 1e-12 <= got.largest_score <= scores.max() + 1e-12
