"""Decoding costs what the mask shows: no key far from what is seen is read, and no cache is copied."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_cases import Case

from jaxgpt import attention, masks

S = 640  # spans of 80 and 160 keys, and all of them


@pytest.mark.parametrize(
    ("read", "options"),
    [
        (slice(0, 80), {"lengths_B": np.array([80, 3])}),
        (slice(0, 160), {"lengths_B": np.array([81, 3])}),
        (slice(0, 80), {"query_offset": np.array([77, 0])}),
        (slice(0, 80), {"query_offset": 40, "mask": masks.causal() & masks.padding(np.ones((2, S), bool))}),
        (slice(292, 372), {"query_offset": np.array([310, 368]), "window": 19}),
        (slice(560, 640), {"window": 70}),
        (slice(81, 241), {"query_offset": 150, "window": 70, "mask": "full"}),
    ],
)
def test_keys_beyond_the_narrowest_span_are_not_read(read, options):
    q, k, v, _ = Case(T=3, S=S).inputs()
    there = np.isin(np.arange(S), np.arange(S)[read])[:, None, None]
    unread = [np.where(there, x, np.nan) for x in (k, v)]
    got = jax.jit(lambda *qkv: attention(*qkv, **options, implementation="decode"))(q, *unread)
    np.testing.assert_allclose(got, attention(q, k, v, **options, implementation="reference"), rtol=1e-5, atol=1e-6)


def test_a_cache_is_not_copied():
    def step(q_BTHD, k_NSD, v_NSD, lengths_B):
        k_BSKD, v_BSKD = (x_NSD.reshape(2, 4, 1024, 16).swapaxes(1, 2) for x_NSD in (k_NSD, v_NSD))
        return attention(q_BTHD, k_BSKD, v_BSKD, mask="full", lengths_B=lengths_B, implementation="decode")

    shapes = (jax.ShapeDtypeStruct(shape, "float32") for shape in ((2, 1, 4, 16), (8, 1024, 16), (8, 1024, 16)))
    memory = jax.jit(step).lower(*shapes, jax.ShapeDtypeStruct((2,), jnp.int32)).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 8 * 1024 * 16 * 4
