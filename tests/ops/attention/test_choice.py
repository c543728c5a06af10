"""Which kernel runs: the named one or a refusal, and by "auto" the first that pays."""

import jax
import numpy as np
import pytest

from jaxgpt import masks
from jaxgpt.config import RequestError
from jaxgpt.ops.attention import KERNELS, attention, explain_attention

REAL = np.ones((2, 8), bool)


def explained(T=8, dtype="float32", S=None, **options):
    q, k = (jax.ShapeDtypeStruct((2, length, heads, 8), dtype) for length, heads in ((T, 4), (S or max(T, 8), 2)))
    return explain_attention(q, k, k, **options)


@pytest.mark.parametrize("platform", ["cpu", "gpu", "tpu"])
@pytest.mark.parametrize("implementation", ["auto", "reference"])
def test_every_kernel_has_a_line(platform, implementation):
    choice = explained(platform=platform, implementation=implementation)
    assert {choice.kernel, *choice.others} == set(KERNELS)
    assert choice.kernel not in choice.others
    first, *rest = str(choice).splitlines()
    assert first.split() == [choice.kernel, "runs:", *choice.reason.split()]
    assert [line.split()[0] for line in rest] == list(choice.others)
    for line, why in zip(rest, choice.others.values(), strict=True):
        assert line.endswith(f"  not taken: {why}")


def test_the_lines_stand_below_each_other():
    assert (
        len({line.index("runs:" if "runs:" in line else "not taken:") for line in str(explained()).splitlines()}) == 1
    )


@pytest.mark.parametrize(
    ("T", "options", "kernel"),
    [
        (8, {}, "dense"),
        (511, {}, "dense"),
        (512, {}, "blocked"),
        (512, {"mask": masks.causal() & masks.window(9)}, "blocked"),
        (512, {"dropout_rate": 0.1}, "blocked"),
        (512, {"dropout_rate": 0.1, "dropout_key": jax.random.key(0)}, "dense"),
        (512, {"tap": lambda _, x: x}, "reference"),
    ],
)
def test_auto_on_a_cpu_takes_by_length_and_by_what_is_asked_for(T, options, kernel):
    assert explained(T, platform="cpu", **options).kernel == kernel


@pytest.mark.parametrize(("axis", "kernel"), [("data", "blocked"), ("tensor", "blocked"), ("other", "dense")])
def test_auto_on_a_cpu_takes_blocked_earlier_where_each_device_has_a_part(axis, kernel):
    assert explained(256, platform="cpu").kernel == "dense"
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((2,), (axis,))):
        assert explained(256, platform="cpu").kernel == kernel


@pytest.mark.parametrize(
    ("T", "S", "options", "kernel"),
    [
        (1, 1024, {"lengths_B": np.array([9, 1024])}, "decode"),
        (8, 1024, {"query_offset": np.array([9, 100])}, "decode"),
        (1, 1024, {"window": 9}, "decode"),
        (9, 1024, {"lengths_B": np.array([9, 1024])}, "dense"),
        (1, 1023, {"lengths_B": np.array([9, 1023])}, "dense"),
        (1, 1024, {}, "dense"),
        (1, 1024, {"mask": masks.padding(np.ones((2, 1024), bool))}, "dense"),
        (600, 2400, {"lengths_B": np.array([9, 1024])}, "blocked"),
    ],
)
def test_auto_on_a_cpu_decodes_where_positions_may_hide_much_of_a_long_past(T, S, options, kernel):
    choice = explained(T, S=S, platform="cpu", **options)
    assert choice.kernel == kernel
    assert kernel == "decode" or choice.others["decode"].startswith(("decodes only", "is not quicker", "is dense"))


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_taken_when_named_or_its_library_is_missing(name):
    options = {"platform": KERNELS[name].platforms[0], "implementation": name}
    T = 8 if name == "decode" else 512
    try:
        outcome = explained(T, KERNELS[name].dtypes[0], S=512, **options).reason
    except RequestError as error:
        outcome = str(error)
    assert outcome == "it was asked for" or f"attention '{name}' is not installed: pip install" in outcome


def test_a_named_kernel_is_refused_with_the_reason_and_never_replaced():
    dropping = {"dropout_rate": 0.5, "dropout_key": jax.random.key(0), "implementation": "blocked", "platform": "cpu"}
    with pytest.raises(
        RequestError, match=r"'blocked' has no dropout of weights; use 'auto' or 'reference' or 'dense'"
    ):
        explained(**dropping)
    q = np.zeros((1, 3, 2, 4), np.float32)
    with pytest.raises(RequestError, match="'blocked' has no dropout of weights"):
        attention(q, q, q, **dropping)


def test_what_others_refuse_is_said_although_another_was_asked_for():
    choice = explained(dropout_rate=0.5, dropout_key=jax.random.key(0), implementation="dense", platform="cpu")
    assert choice.others["blocked"] == "has no dropout of weights"
    assert choice.others["reference"] == "'dense' was asked for"


@pytest.mark.parametrize("implementation", ["auto", "dense"])
def test_what_cannot_run_a_call_is_told_from_what_is_only_left(implementation):
    choice = explained(platform="cpu", implementation=implementation)
    assert choice.refusals == {
        "decode": "decodes only: up to 8 queries and 4 times as many keys, got 8 queries and 8 keys",
        "cudnn": "runs on gpu, not on cpu",
        "splash": "runs on tpu, not on cpu",
        "tokamax": "runs on gpu, not on cpu",
    }
    assert {name: choice.others[name] for name in choice.refusals} == choice.refusals


@pytest.mark.parametrize("implementation", ["auto", "dense"])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_a_dtype_that_no_kernel_computes_in_is_refused(dtype, implementation):
    with pytest.raises(RequestError, match=f"expected float32, bfloat16, float16, got {dtype}; convert with .astype"):
        explained(dtype=dtype, implementation=implementation, platform="cpu")


@pytest.mark.parametrize(
    ("options", "kernel"),
    [
        ({"S": 64, "mask": "full"}, "dense"),
        ({"mask": "full"}, "dense"),
        ({"T": 1024, "mask": "full"}, "blocked"),
        ({"dtype": "bfloat16"}, "dense"),
        ({"T": 1024, "dtype": "bfloat16"}, "blocked"),
    ],
)
def test_auto_on_a_cpu_takes_blocked_later_where_it_saves_less(options, kernel):
    assert explained(**{"T": 512, "platform": "cpu"} | options).kernel == kernel


def test_what_is_divided_by_hand_refuses_a_mesh_whose_axes_are_explicit():
    mesh = jax.sharding.AbstractMesh((2,), ("data",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.sharding.use_abstract_mesh(mesh):
        choice = explained(1024, platform="cpu")
    assert choice.kernel == "dense"
    assert choice.others["blocked"].startswith("divides Auto mesh axes only")


def test_arrays_without_elements_have_no_tiles():
    assert explained(600, S=0, mask="full", platform="cpu").kernel == "dense"
    empty = np.zeros((2, 0, 4, 8), np.float32)
    heads = attention(np.ones((2, 600, 4, 8), np.float32), empty, empty, mask="full")
    np.testing.assert_array_equal(heads, np.zeros((2, 600, 4, 8)))


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(
        RequestError, match=r"implementation 'blockd' is not one of \('auto', .*did you mean 'blocked'"
    ):
        explained(implementation="blockd")
    with pytest.raises(RequestError, match=r"platform: expected one of \('cpu', 'gpu', 'tpu'\), got 'cpus'.*'cpu'"):
        explained(platform="cpus")


def test_an_explanation_is_refused_where_attention_would_be():
    with pytest.raises(RequestError, match="query_offset: expected at least 0, got -1"):
        explained(query_offset=-1)
    with pytest.raises(RequestError, match=r"mask_BS: expected shape \[B, S=9\], got \[2, 8\]"):
        explained(9, mask=masks.padding(REAL))
