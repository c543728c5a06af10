"""The kernels of GPUs and TPUs, as far as a CPU shows: what they compute, what they refuse, when they are chosen."""

import functools
import importlib.util
import subprocess
import sys
from typing import get_args

import jax
import numpy as np
import pytest
from attention_cases import Case, attends, failures, gradients_of
from jax.experimental.pallas.tpu import force_tpu_interpret_mode

from jaxgpt import ExecutionConfig, explain_attention, masks
from jaxgpt.config import AttentionName, RequestError
from jaxgpt.ops.attention import KERNELS, cudnn

RNG = np.random.default_rng(0)
REAL = RNG.random((2, 256)) < 0.7
REAL[0, :200] = False
SEGMENTS = tuple(np.sort(RNG.integers(-2, 3, (2, length)), axis=1) for length in (128, 256))
BLOCKS = functools.partial(Case, T=128, S=256)
SPLASH = {
    "causal, padded": BLOCKS(real=REAL),
    "packed and padded, capped": BLOCKS(causal=False, real=REAL, segments=SEGMENTS, soft_cap=0.7),
    "window, offset, lengths": BLOCKS(window=20, offset=60, lengths=np.array([0, 90])),
    "window on both sides": BLOCKS(causal=False, window=20),
    "full": BLOCKS(causal=False),
}


def on(platform, case, name):
    """The kernel on a case's arguments, as if the program were compiled for that platform."""
    return functools.partial(gradients_of, functools.partial(attends(case, name), platform=platform))


def one_for_every_day(cases, everyday):
    """The names of the cases; all but one, which has most parts, are for the ci tier."""
    return [case if case == everyday else pytest.param(case, marks=pytest.mark.ci) for case in cases]


@pytest.mark.parametrize("case", one_for_every_day(SPLASH, "packed and padded, capped"))
def test_splash_is_the_formula(case):
    case = SPLASH[case]
    inputs = case.inputs()
    with force_tpu_interpret_mode(True):  # Pallas's plain interpreter, which the context would else replace
        got = jax.jit(on("tpu", case, "splash"))(*inputs)
    assert failures(case, inputs, got) == []


def test_in_the_first_cases_of_splash_some_query_sees_nothing():
    blind = [(~case.visible().any(-1)).any() for case in SPLASH.values()]
    assert blind == [True, True, True, False, False]


def test_splash_and_its_gradient_are_lowered_for_a_tpu_without_one():
    case = Case(T=512, S=512, D=64)
    exported = jax.export.export(jax.jit(on("tpu", case, "splash")), platforms=["tpu"])(*case.inputs("bfloat16"))
    assert (
        exported.mlir_module().count("tpu_custom_call") == 3
    )  # forward, gradient of the queries, of keys and values


EVEN = functools.partial(Case, T=16, S=16)
CUDNN = {
    "causal": EVEN(),
    "causal, lengths": EVEN(lengths=np.array([0, 9])),
    "causal, window": EVEN(window=5),
    "full, lengths": EVEN(S=24, causal=False, lengths=np.array([24, 3])),
}


@pytest.fixture
def cudnn_there(monkeypatch):
    """As on a machine with JAX's CUDA packages."""
    monkeypatch.setattr(cudnn.importlib.util, "find_spec", lambda name: name if name in cudnn._PACKAGES else None)


@pytest.mark.parametrize("case", one_for_every_day(CUDNN, "causal, window"))
def test_what_is_asked_of_cudnn_is_the_formula(case, monkeypatch, cudnn_there):
    case = CUDNN[case]
    inputs = case.inputs("bfloat16")
    asked, theirs = [], jax.nn.dot_product_attention

    def by_the_same_function_without_cudnn(*qkv, implementation, **options):
        asked.append(implementation)
        return theirs(*qkv, implementation="xla", **options)

    monkeypatch.setattr(jax.nn, "dot_product_attention", by_the_same_function_without_cudnn)
    got = jax.jit(on("gpu", case, "cudnn"))(*inputs)
    assert asked == ["cudnn"]
    assert failures(case, inputs, got) == []


def shaped(T, S, D=64, dtype="bfloat16", B=2):
    return (jax.ShapeDtypeStruct((B, n, 4, D), dtype) for n in (T, S, S))


@pytest.mark.parametrize(
    ("sizes", "options", "words"),
    [
        ({"dtype": "float32"}, {}, "computes in bfloat16 or float16, not in float32"),
        ({"D": 20}, {}, "needs a head size that 8 divides, up to 128, got 20"),
        ({"D": 256}, {}, "needs a head size that 8 divides, up to 128, got 256"),
        ({"T": 13, "S": 13}, {}, "needs even lengths, got 13 queries and 13 keys"),
        ({"S": 32}, {}, "as many keys as queries only, got 32 and 16"),
        ({}, {"mask": "full", "window": 4}, "has windows for causal masks only"),
        ({}, {"window": 4, "lengths_B": np.array([3, 4])}, "has windows and lengths, but not together"),
        ({}, {"mask": masks.padding(np.ones((2, 16), bool))}, "does not read this part of the mask: padding"),
        ({}, {"query_offset": 3}, "does not read this part of the mask: query offset"),
        ({}, {"soft_cap": 3.0}, "has no soft cap"),
    ],
)
def test_what_cudnn_does_not_have_is_refused_by_name_and_left_by_auto(sizes, options, words, cudnn_there):
    call = functools.partial(explain_attention, *shaped(**{"T": 16, "S": 16} | sizes), **options, platform="gpu")
    with pytest.raises(RequestError, match=f"attention 'cudnn' .*{words}"):
        call(implementation="cudnn")
    assert words in call().others["cudnn"]
    assert call().kernel == "dense"


@pytest.mark.parametrize(
    ("sizes", "options", "words"),
    [
        ({"T": 1}, {}, "needs lengths that are multiples of 128, got 1 queries and 256 keys"),
        ({"S": 200}, {}, "needs lengths that are multiples of 128, got 128 queries and 200 keys"),
        ({}, {"query_offset": np.array([3, 4])}, "needs a query_offset that is one plain number"),
        ({"dtype": "float16"}, {}, "computes in float32 or bfloat16, not in float16"),
        ({}, {"dropout_rate": 0.5, "dropout_key": jax.random.key(0)}, "has no dropout of weights"),
    ],
)
def test_what_splash_does_not_have_is_refused_by_name_and_left_by_auto(sizes, options, words):
    call = functools.partial(explain_attention, *shaped(**{"T": 128, "S": 256} | sizes), **options, platform="tpu")
    with pytest.raises(RequestError, match=f"attention 'splash' .*{words}"):
        call(implementation="splash")
    assert words in call().others["splash"]
    assert call().kernel == "dense"


def test_each_accelerator_has_its_kernel(cudnn_there):
    assert explain_attention(*shaped(256, 256), platform="gpu").kernel == "cudnn"
    assert explain_attention(*shaped(256, 256, dtype="float32"), platform="tpu").kernel == "splash"


@pytest.mark.skipif(importlib.util.find_spec("jax_cuda13_plugin") is not None, reason="cuDNN is installed")
def test_what_is_not_installed_is_not_chosen_and_says_how_to_install_it():
    choice = explain_attention(*shaped(256, 256), platform="gpu")
    assert choice.kernel == "dense"
    assert "pip install 'jaxgpt[cuda]'" in choice.others["cudnn"]


@pytest.mark.skipif(importlib.util.find_spec("tokamax") is not None, reason="tokamax is installed")
def test_tokamax_that_is_not_installed_says_how_to_install_it():
    assert "pip install 'jaxgpt[kernels]'" in explain_attention(*shaped(256, 256), platform="gpu").others["tokamax"]


def test_the_setting_names_every_kernel():
    assert get_args(AttentionName) == ("auto", *KERNELS)
    for name in KERNELS:
        ExecutionConfig(attention=name)


def test_importing_the_operations_imports_no_kernel_of_an_accelerator():
    statement = "import jaxgpt.ops.attention, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", statement], capture_output=True, text=True, timeout=60, check=True)
    imported = done.stdout.split()
    assert "jaxgpt.ops.attention.splash" in imported
    assert [name for name in imported if "splash_attention" in name or name.startswith("tokamax")] == []
