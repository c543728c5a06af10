"""The kernels of GPUs and TPUs, as far as a CPU shows: what they compute, what they refuse, when they are chosen."""

import functools
import importlib.util
import math
import subprocess
import sys
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_numpy
from jax.experimental.pallas.tpu import force_tpu_interpret_mode

from jaxgpt import ExecutionConfig, attention, explain_attention, masks
from jaxgpt.config import AttentionName, RequestError
from jaxgpt.ops.attention import KERNELS, cudnn

RNG = np.random.default_rng(0)
REAL = RNG.random((2, 256)) < 0.7
REAL[0, :200] = False
QUERY_SEGMENTS, KEY_SEGMENTS = (np.sort(RNG.integers(-2, 3, (2, length)), axis=1) for length in (128, 256))
SPLASH = {  # mask, options, whether some query sees nothing
    "causal, padded": (masks.causal() & masks.padding(REAL), {}, True),
    "packed and padded, capped": (
        masks.segments(QUERY_SEGMENTS, KEY_SEGMENTS) & masks.padding(REAL),
        {"soft_cap": 0.7},
        True,
    ),
    "window, offset, lengths": (
        masks.causal() & masks.window(20),
        {"query_offset": 60, "lengths_B": np.array([0, 90])},
        True,
    ),
    "window on both sides": (masks.window(20), {}, False),
    "full": (masks.full(), {}, False),
}


def arrays_of(T, S, H, K, D):
    rng = np.random.default_rng(T + S + D)
    sizes = ((2, T, H, D), (2, S, K, D), (2, S, K, D), (2, T, H, D))
    return [rng.standard_normal(shape, dtype=np.float32) for shape in sizes]


def heads_and_gradients(q, k, v, out, **options):
    heads, pull = jax.vjp(lambda *qkv: attention(*qkv, **options), q, k, v)
    return heads, *pull(out)


def exact(q, k, v, out, visible, cap=None):
    """The formula and its gradients in float64."""
    q, k, v, out = (x.astype(np.float64) for x in (q, k, v, out))
    scale = 1 / math.sqrt(q.shape[-1])
    heads = reference_numpy.attention(q, k, v, visible, scale, soft_cap=cap)
    return heads, *reference_numpy.attention_gradients(q, k, v, visible, scale, out, soft_cap=cap)


def seen_by(mask, query_offset=None, lengths_B=None):
    """[2,1,128,256] or less, from the words of the documentation."""
    t, s = np.arange(128)[:, None] + (128 if query_offset is None else query_offset), np.arange(256)
    seen = np.ones((2, 1, 128, 256), bool)
    seen &= (s <= t) | (not mask.causal)
    seen &= (np.abs(s - t) < mask.reach) if mask.reach else True
    seen &= True if mask.keys_BS is None else np.asarray(mask.keys_BS)[:, None, None]
    seen &= True if lengths_B is None else (s < lengths_B[:, None])[:, None, None]
    if mask.segments is not None:
        queries, keys = map(np.asarray, mask.segments)
        seen &= (queries[:, :, None] == keys[:, None])[:, None]
    return seen


def one_for_every_day(cases, everyday):
    """The names of the cases; all but one, which has most parts, are for the ci tier."""
    return [case if case == everyday else pytest.param(case, marks=pytest.mark.ci) for case in cases]


@pytest.mark.parametrize("case", one_for_every_day(SPLASH, "packed and padded, capped"))
def test_splash_is_the_formula(case):
    mask, options, some_see_nothing = SPLASH[case]
    arrays = arrays_of(128, 256, 4, 2, 8)
    visible = seen_by(mask, options.get("query_offset"), options.get("lengths_B"))
    assert (~visible.any(-1)).any() == some_see_nothing
    run = functools.partial(heads_and_gradients, mask=mask, implementation="splash", platform="tpu", **options)
    with force_tpu_interpret_mode(True):  # Pallas's plain interpreter, which the context would else replace
        got = jax.jit(run)(*arrays)
    wanted = exact(*arrays, visible, options.get("soft_cap"))
    for name, mine, best in zip(("heads", "q", "k", "v"), got, wanted, strict=True):
        assert np.abs(mine - best).max() < 1e-5 * np.abs(best).max(), name
    blind = np.broadcast_to(~visible.any(-1), (2, 4, 128)).swapaxes(1, 2)
    assert (np.asarray(got[0])[blind] == 0).all()
    assert (np.asarray(got[1])[blind] == 0).all()


def test_splash_and_its_gradient_are_lowered_for_a_tpu_without_one():
    run = functools.partial(heads_and_gradients, implementation="splash", platform="tpu")
    shapes = [jax.ShapeDtypeStruct(x.shape, "bfloat16") for x in arrays_of(512, 512, 4, 2, 64)]
    exported = jax.export.export(jax.jit(run), platforms=["tpu"])(*shapes)
    assert (
        exported.mlir_module().count("tpu_custom_call") == 3
    )  # forward, gradient of the queries, of keys and values


CUDNN = {
    "causal": (masks.causal(), 16),
    "causal, lengths": (masks.causal() & masks.lengths(np.array([0, 9])), 16),
    "causal, window": (masks.causal() & masks.window(5), 16),
    "full, lengths": (masks.lengths(np.array([24, 3])), 24),
}


@pytest.fixture
def cudnn_there(monkeypatch):
    """As on a machine with JAX's CUDA packages."""
    monkeypatch.setattr(cudnn.importlib.util, "find_spec", lambda name: name if name in cudnn._PACKAGES else None)


@pytest.mark.parametrize("case", one_for_every_day(CUDNN, "causal, window"))
def test_what_is_asked_of_cudnn_is_the_formula(case, monkeypatch, cudnn_there):
    mask, S = CUDNN[case]
    arrays = [np.asarray(x, jnp.bfloat16) for x in arrays_of(16, S, 4, 2, 8)]
    asked, theirs = [], jax.nn.dot_product_attention

    def by_the_same_function_without_cudnn(*qkv, implementation, **options):
        asked.append(implementation)
        return theirs(*qkv, implementation="xla", **options)

    monkeypatch.setattr(jax.nn, "dot_product_attention", by_the_same_function_without_cudnn)
    run = functools.partial(heads_and_gradients, mask=mask, implementation="cudnn", platform="gpu")
    got = jax.jit(run)(*arrays)
    assert asked == ["cudnn"]
    visible = mask.visible(16, S)
    for mine, best in zip(got, exact(*arrays, visible), strict=True):
        assert reference_numpy.relative_error(np.asarray(mine, np.float64), best) < 1e-2
    blind = np.broadcast_to(~np.asarray(visible).any(-1), (2, 1, 16))[:, 0]
    assert (np.asarray(got[0])[blind] == 0).all()


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
