"""Traces: every name of the course, alive and replaceable, and free when off."""

import jax
import numpy as np
import pytest
import reference_numpy
from small_models import SMALL, random_ids, random_parameters

import jaxgpt
from jaxgpt import ExecutionConfig
from jaxgpt.config import RequestError

PARAMS, IDS = random_parameters(SMALL), random_ids(SMALL)
REFERENCE = ExecutionConfig(attention="reference")
IN_A_BLOCK = [
    "ln1",
    "attention/q",
    "attention/k",
    "attention/v",
    "attention/scores",
    "attention/weights",
    "attention/heads",
    "attention/update",
    "residual_after_attention",
    "ln2",
    "ffn/pre",
    "ffn/hidden",
    "ffn/update",
    "residual_after_ffn",
]
NAMES = ["residual_0", *(f"blocks_{i}/{name}" for i in range(2) for name in IN_A_BLOCK), "final_hidden", "logits"]


@pytest.fixture(scope="module")
def seen():
    logits, seen = jaxgpt.apply(SMALL, PARAMS, IDS, trace=True)
    np.testing.assert_array_equal(logits, seen["logits"])
    return {name: np.asarray(value) for name, value in seen.items()}


def test_a_trace_has_exactly_the_names_of_the_course_in_order(seen):
    assert list(seen) == NAMES
    abstract = jax.eval_shape(lambda: jaxgpt.apply(SMALL, PARAMS, IDS, trace=True)[1])
    assert set(abstract) == set(NAMES)


def test_every_intermediate_has_its_axes(seen):
    B, T, C, H, D, F, V = 2, 6, 12, 3, 4, 48, 11
    shapes = dict.fromkeys(("q", "k", "v", "heads"), (B, T, H, D)) | dict.fromkeys(
        ("scores", "weights"), (B, H, T, T)
    )
    shapes |= {"pre": (B, T, F), "hidden": (B, T, F), "logits": (B, T, V)}
    for name, value in seen.items():
        assert value.shape == shapes.get(name.rsplit("/", 1)[-1], (B, T, C)), name


def test_the_intermediates_are_those_of_the_formulas(seen):
    params = reference_numpy.float64(PARAMS)
    exact = {"residual_0": params["token_embedding"][IDS] + params["position_embedding"]}
    block = params["blocks_0"]
    normed = reference_numpy.layer_norm(exact["residual_0"], block["ln1"]["scale"], block["ln1"]["bias"], 1e-5)
    exact["blocks_0/ln1"] = normed
    q, k, v = (reference_numpy.project(normed, block["attention"][n], "btc,chd->bthd") for n in "qkv")
    exact |= {"blocks_0/attention/q": q, "blocks_0/attention/k": k, "blocks_0/attention/v": v}
    exact["blocks_0/attention/scores"] = np.einsum("bthd,bshd->bhts", q, k) / 2
    exact["blocks_0/attention/weights"] = reference_numpy.attention_weights(q, k, "causal", 0.5)
    exact["blocks_0/attention/heads"] = reference_numpy.attention(q, k, v, "causal", 0.5)
    for name, value in exact.items():
        assert reference_numpy.relative_error(seen[name], value) < 1e-5, name


def test_the_residual_stream_is_the_sum_of_its_updates(seen):
    for i in range(2):
        before = seen["residual_0"] if i == 0 else seen["blocks_0/residual_after_ffn"]
        middle, after = seen[f"blocks_{i}/residual_after_attention"], seen[f"blocks_{i}/residual_after_ffn"]
        np.testing.assert_array_equal(middle, before + seen[f"blocks_{i}/attention/update"])
        np.testing.assert_array_equal(after, middle + seen[f"blocks_{i}/ffn/update"])


def test_looking_changes_nothing(seen):
    plain = jaxgpt.apply(SMALL, PARAMS, IDS, execution=REFERENCE)
    np.testing.assert_array_equal(plain, seen["logits"])


def test_with_the_trace_off_the_program_is_the_one_without_taps():
    def program(**options):
        return str(jax.make_jaxpr(lambda p: jaxgpt.apply(SMALL, p, IDS, execution=REFERENCE, **options))(PARAMS))

    looking = jax.make_jaxpr(lambda p: jaxgpt.apply(SMALL, p, IDS, execution=REFERENCE, trace=True)[0])(PARAMS)
    assert program() == program(overrides={}) == str(looking)

    def lowered(name, **options):
        return jax.jit(lambda p: jaxgpt.apply(SMALL, p, IDS, **options)).lower(PARAMS).as_text()

    assert lowered("plain") == lowered("off", trace=False, overrides=None)
    assert "callback" not in lowered("plain")


def test_an_override_of_any_name_reaches_the_logits_and_the_trace(seen):
    """Each replaced intermediate changes the logits; what comes before it stays."""
    for name in IN_LAST_BLOCK:
        new = seen[name] + np.float32(0.5) * (seen[name] > 0)
        logits, trace = jaxgpt.apply(SMALL, PARAMS, IDS, trace=True, overrides={name: new})
        assert reference_numpy.relative_error(logits, seen["logits"]) > 1e-4, name
        np.testing.assert_array_equal(trace[name], new)
        for earlier in NAMES[: NAMES.index(name)]:
            np.testing.assert_array_equal(trace[earlier], seen[earlier])


IN_LAST_BLOCK = ["residual_0", *(f"blocks_1/{name}" for name in IN_A_BLOCK), "final_hidden", "logits"]


def test_replacing_the_weights_by_an_array_gives_the_heads_of_those_weights(seen):
    uniform = np.full((2, 3, 6, 6), 1 / 6, np.float32)
    _, trace = jaxgpt.apply(SMALL, PARAMS, IDS, trace=True, overrides={"blocks_0/attention/weights": uniform})
    mean = seen["blocks_0/attention/v"].mean(axis=1, keepdims=True)
    np.testing.assert_allclose(trace["blocks_0/attention/heads"], np.broadcast_to(mean, (2, 6, 3, 4)), atol=1e-5)


def test_silencing_a_block_leaves_the_stream_as_it_was(seen):
    silence = {f"blocks_1/{part}/update": lambda x: 0 * x for part in ("attention", "ffn")}
    _, trace = jaxgpt.apply(SMALL, PARAMS, IDS, trace=True, overrides=silence)
    np.testing.assert_array_equal(trace["blocks_1/residual_after_ffn"], seen["blocks_0/residual_after_ffn"])


def test_overrides_alone_return_the_logits_alone():
    shift = {"logits": lambda x: x + 1}
    logits = jaxgpt.apply(SMALL, PARAMS, IDS, overrides=shift)
    np.testing.assert_allclose(logits, jaxgpt.apply(SMALL, PARAMS, IDS) + 1, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"overrides": {"blocks_0/attention/weigths": 0}}, "did you mean 'blocks_0/attention/weights'"),
        ({"overrides": {"blocks_2/ln1": 0}}, "override of unknown intermediate 'blocks_2/ln1'"),
        ({"overrides": {"logits": np.zeros(11)}}, r"override of 'logits': expected shape \[2, 6, 11\], got \[11\]"),
        (
            {"trace": True, "execution": ExecutionConfig(attention="dense")},
            "'dense' has no scores or weights to trace",
        ),
        (
            {"overrides": {"logits": lambda x: x}, "execution": ExecutionConfig(attention="dense")},
            "attention 'dense' has no scores or weights to trace; use 'auto' or 'reference'",
        ),
    ],
)
def test_a_trace_that_cannot_be_is_refused(options, words):
    with pytest.raises(RequestError, match=words):
        jaxgpt.apply(SMALL, PARAMS, IDS, **options)


def test_rematerialisation_does_not_disturb_a_trace(seen):
    _, trace = jaxgpt.apply(SMALL, PARAMS, IDS, trace=True, execution=ExecutionConfig(remat=True))
    assert list(trace) == NAMES
    np.testing.assert_array_equal(trace["logits"], seen["logits"])
