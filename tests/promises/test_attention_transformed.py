"""Every attention kernel is the float64 formula inside vmap, remat, scan, grad and jit, over the whole table.

All at once: a program takes the gradients of a scan over two steps, each a rematerialised vmap over two calls. No two
of the four have the same queries, keys and values or dropout key, nor two of one step the same arrays of a mask.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import pytest
from attention_cases import CASES, attends, failures, gradients_of, kept, own_dtype, refusal
from program import QUICK

from jaxgpt.config import RequestError
from jaxgpt.ops.attention import KERNELS

EVERYDAY = ("window, packed and padded", "blocked")
OTHERS = [case_name for case_name in CASES if case_name != EVERYDAY[0]]
# Cases that share a program: together they compile in half the time.
GROUPS = [EVERYDAY[:1], *(tuple(OTHERS[i : i + 9]) for i in range(0, len(OTHERS), 9))]
GROUP = {case_name: group for group in GROUPS for case_name in group}


def calls_of(case, dtype):
    """The four calls of a case and their inputs: its rows in order or reversed, its numbers as they are or negated.

    So each cancels as much as the case does: other draws might, where scores are large, leave nothing but rounding.
    """
    inputs = case.inputs(dtype)
    turned, back = case.with_rows(lambda rows: rows[::-1]), [x[::-1] for x in inputs]
    calls = ((case, inputs), (turned, back), (turned, [-x for x in back]), (case, [-x for x in inputs]))
    return [(dataclasses.replace(call, seed=seed), arrays) for seed, (call, arrays) in enumerate(calls)]


def in_steps(calls):
    """The same part of four calls as one tree, its arrays [2 steps, 2 calls, ...]."""
    return jax.tree.map(lambda *four: jnp.stack(four).reshape(2, 2, *four[0].shape), *calls)


def one_by_one(results):
    """What each of the four calls got."""
    return [[x[step, call] for x in results] for step in range(2) for call in range(2)]


def transformed(case, name):
    """The kernel inside vmap, checkpoint, scan and vjp: (arrays, (q, k, v, out)) -> heads and gradients."""
    step = jax.checkpoint(jax.vmap(lambda arrays, *qkv: attends(case, name, arrays)(*qkv)))

    def heads_and_gradients(arrays, inputs):
        return gradients_of(
            lambda *qkv: jax.lax.scan(lambda _, calls: (None, step(*calls)), None, (arrays, *qkv))[1], *inputs
        )

    return heads_and_gradients


def arguments(case, dtype):
    """What attention is given beside them, and q, k, v and the gradient of the heads, of all four calls."""
    calls, inputs = zip(*calls_of(case, dtype), strict=True)
    return in_steps([call.arrays for call in calls]), in_steps(inputs)


@functools.cache
def computed(name, case_names):
    """Heads and gradients of several cases, from one program; test_attention_kernels.py compiles as users do."""

    @functools.partial(jax.jit, compiler_options=QUICK)
    def program(given):
        return {case_name: transformed(CASES[case_name], name)(*given[case_name]) for case_name in case_names}

    dtype = own_dtype(name)
    with jax.default_matmul_precision("highest" if dtype == "float32" else "default"):
        return jax.device_get(program({each: arguments(CASES[each], dtype) for each in case_names}))


@pytest.mark.parametrize(
    ("case_name", "name"),
    [
        pytest.param(case_name, name, marks=() if (case_name, name) == EVERYDAY else pytest.mark.ci)
        for case_name in CASES
        for name in KERNELS
    ],
)
def test_a_transformed_kernel_is_the_formula_or_refuses(case_name, name):
    case, dtype, refused = CASES[case_name], own_dtype(name), refusal(name, case_name)
    if refused is not None:
        with pytest.raises(RequestError, match=f"attention '{name}' {refused}"):
            jax.eval_shape(transformed(case, name), *arguments(case, dtype))
        return
    run = tuple(each for each in GROUP[case_name] if refusal(name, each) is None)
    results = one_by_one(computed(name, run)[case_name])
    for (call, inputs), got in zip(calls_of(case, dtype), results, strict=True):
        assert failures(call, inputs, got, kept(call, inputs, name)) == []
