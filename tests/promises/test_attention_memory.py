"""`blocked` never holds the scores: no buffer of B*H*T*T/2 or more elements, and temporary bytes linear in T."""

import functools
import math

import hlo
import jax
import pytest
from attention_cases import gradients_of

from jaxgpt.ops.attention import attention

B, H, K, D = 2, 2, 1, 16
LINEAR = 2.3  # times the bytes for twice the length; the scores would need 4


@functools.cache
def compiled(name, T, backward):
    """The program for T queries and keys, from shapes alone; nothing is computed."""
    q, k = jax.ShapeDtypeStruct((B, T, H, D), "float32"), jax.ShapeDtypeStruct((B, T, K, D), "float32")
    attend = functools.partial(attention, implementation=name)
    if not backward:
        return jax.jit(attend).lower(q, k, k).compile()
    return jax.jit(functools.partial(gradients_of, attend)).lower(q, k, k, q).compile()


def holds_scores(name, T, backward):
    """Whether a value of the program has as many elements as half of the scores, whatever its shape."""
    return math.prod(hlo.largest_shape(compiled(name, T, backward))) >= B * H * T * T / 2


def growth(name, T, backward):
    """How many times the bytes twice the length needs."""
    short, long = (hlo.temporary_bytes(compiled(name, size, backward)) for size in (T, 2 * T))
    return long / short


@pytest.mark.parametrize("backward", [False, True])
def test_blocked_holds_no_scores(backward):
    assert not holds_scores("blocked", 512, backward)
    assert holds_scores("dense", 512, backward)


@pytest.mark.ci
@pytest.mark.parametrize("backward", [False, True])
def test_blocked_holds_no_scores_of_thousands_of_queries(backward):
    assert not holds_scores("blocked", 4096, backward)


@pytest.mark.ci
@pytest.mark.parametrize("backward", [False, True])
def test_the_temporary_bytes_of_blocked_are_linear_in_the_length(backward):
    assert max(growth("blocked", T, backward) for T in (1024, 2048)) < LINEAR
    assert growth("dense", 1024, backward) > 3.5
