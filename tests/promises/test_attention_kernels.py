"""Every attention kernel is the float64 formula, in values and in all three gradients, over the whole table of cases.

Finite, and within 1e-5 x max(1, largest score / 100) of the largest value; bfloat16 within 1e-2. What a kernel does
not support it refuses, and nothing else. The kernels of the platform at hand are run: on an accelerator, its own.
"""

import functools

import jax
import numpy as np
import pytest
from attention_cases import CASES, REFUSED, Case, attends, failures, gradients_of, kept, own_dtype, refusal
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgpt.config import RequestError
from jaxgpt.ops.attention import KERNELS

FORWARD_MODE = ("reference", "dense", "decode")  # the others have a backward pass of their own, so JAX refuses jvp

RICHEST = "window, packed and padded"  # in the ordinary tier it stands for all in bfloat16
EVERYDAY = (
    RICHEST,
    "a query offset for each row",
    "a few queries, windowed, of a ragged past",
    "lengths, one of them 0",
    "packed, a segment without keys",
    "no block divides the length, windowed",
    "odd everything",
    "scores of thousands, padded",
    "soft cap, padded",
    "dropout, masked",
)


def groups():
    """Cases that share a program: together they compile in half the time."""
    rest = [case_name for case_name in CASES if case_name not in EVERYDAY]
    return [(RICHEST,), EVERYDAY[1:], *(tuple(rest[i : i + 9]) for i in range(0, len(rest), 9))]


GROUP = {case_name: group for group in groups() for case_name in group}


def tiers(*tables, ordinary):
    """Parametrize over the product of the tables; what is not ordinary is for the ci tier."""
    rows = [()]
    for table in tables:
        rows = [(*row, entry) for row in rows for entry in table]
    return [pytest.param(*row, marks=() if ordinary(*row) else pytest.mark.ci) for row in rows]


HERE = [name for name in KERNELS if refusal(name, RICHEST) is None]


@functools.cache
def computed(name, dtype, case_names):
    """Heads and gradients of several cases, from one compiled program."""

    @jax.jit
    def program(inputs, arrays):
        return {
            case_name: gradients_of(attends(CASES[case_name], name, arrays[case_name]), *inputs[case_name])
            for case_name in case_names
        }

    inputs = {case_name: CASES[case_name].inputs(dtype) for case_name in case_names}
    with jax.default_matmul_precision("highest" if dtype == "float32" else "default"):
        return jax.device_get(program(inputs, {case_name: CASES[case_name].arrays for case_name in case_names}))


def result(case_name, name, dtype):
    """Heads and gradients of a case."""
    runs = tuple(case for case in GROUP[case_name] if refusal(name, case) is None)
    return computed(name, dtype, runs)[case_name]


@pytest.mark.parametrize(
    ("case_name", "name", "dtype"),
    tiers(
        CASES,
        KERNELS,
        ("float32", "bfloat16"),
        ordinary=lambda case, _, dtype: case in EVERYDAY if dtype == "float32" else case == RICHEST,
    ),
)
def test_a_kernel_is_the_formula_or_refuses(case_name, name, dtype):
    case, dtype = CASES[case_name], own_dtype(name, dtype)
    inputs = case.inputs(dtype)
    expected = refusal(name, case_name)
    if expected is not None:
        with pytest.raises(RequestError, match=f"attention '{name}' {expected}.*; use 'auto' or "):
            attends(case, name)(*inputs[:3])
        return
    assert failures(case, inputs, result(case_name, name, dtype), kept(case, inputs, name)) == []


def test_the_table_of_refusals_names_kernels_and_cases():
    assert set(REFUSED) <= set(KERNELS)
    assert {case for reasons in REFUSED.values() for refused in reasons.values() for case in refused} <= set(CASES)


@pytest.mark.parametrize("name", HERE)
@pytest.mark.parametrize("forward", [jax.jvp, jax.linearize])
def test_forward_mode_agrees_with_the_gradients_or_is_refused(name, forward):
    case = CASES[RICHEST]
    *qkv, out = case.inputs(own_dtype(name))
    tangents = case.inputs(own_dtype(name), seed=1)[:3]

    def slope(qkv, tangents):
        if forward is jax.jvp:
            return jax.jvp(attends(case, name), qkv, tangents)[1]
        return jax.linearize(attends(case, name), *qkv)[1](*tangents)

    if name not in FORWARD_MODE:
        with pytest.raises(TypeError, match="forward-mode"):
            slope(tuple(qkv), tuple(tangents))
        return
    wanted = sum((d * t).sum() for d, t in zip(case.exact((*qkv, out))[1:], tangents, strict=True))
    got = np.asarray(jax.jit(slope)(tuple(qkv), tuple(tangents)), np.float64)
    np.testing.assert_allclose((got * out).sum(), wanted, rtol=1e-5)


def rows(least, most, size=None):
    """Whole numbers for each of two rows, or rows of `size` of them."""
    numbers = st.integers(least, most)
    row = numbers if size is None else st.lists(numbers, min_size=size, max_size=size)
    return st.lists(row, min_size=2, max_size=2).map(np.array)


@functools.cache
def kernels_with_every_part(names):
    """Compile the kernels once for all masks that have every part, whatever the values in their arrays."""
    return jax.jit(
        lambda arrays, *inputs: [gradients_of(attends(Case(T=5, window=4), name, arrays), *inputs) for name in names]
    )


@given(real=rows(0, 1, 8), lengths=rows(0, 8), queries=rows(0, 2, 5), keys=rows(0, 2, 8), offset=rows(0, 9))
@settings(max_examples=40, deadline=None)
def test_whatever_the_arrays_of_a_mask_hide(real, lengths, queries, keys, offset):
    parts = {"real": real, "lengths": lengths, "segments": (queries, keys), "offset": offset}
    case = Case(T=5, window=4, **parts)
    names = tuple(name for name in HERE if own_dtype(name) == "float32")
    inputs = case.inputs()
    for name, got in zip(names, kernels_with_every_part(names)(case.arrays, *inputs), strict=True):
        assert failures(case, inputs, got) == [], name


@st.composite
def cases(draw):
    """Any small call: shapes, parts of the mask, scale and cap."""

    def perhaps(values):
        return draw(st.none() | values)

    K, T, S = draw(st.integers(1, 3)), draw(st.integers(1, 9)), draw(st.integers(1, 9))
    causal, window = draw(st.booleans()), perhaps(st.integers(1, 10))
    offset = perhaps(st.integers(0, 12) | rows(0, 12))
    if offset is None and T > S and (causal or window):
        offset = 0
    return Case(
        T=T, S=S, H=K * draw(st.integers(1, 3)), K=K, D=draw(st.integers(1, 9)), causal=causal, window=window,
        real=perhaps(rows(0, 1, S)), lengths=perhaps(rows(0, S)), offset=offset,
        segments=perhaps(st.tuples(rows(0, 2, T), rows(0, 2, S))),
        scale=perhaps(st.floats(-2, 2, width=16)), soft_cap=perhaps(st.floats(0.5, 50, width=16)),
    )  # fmt: skip


@pytest.mark.ci
@given(case=cases())
@settings(max_examples=8, deadline=None)  # each is a program of its own
def test_any_small_call(case):
    inputs = case.inputs()
    for name in [name for name in HERE if own_dtype(name) == "float32"]:
        got = jax.jit(functools.partial(gradients_of, attends(case, name)))(*inputs)
        assert failures(case, inputs, got) == [], name
