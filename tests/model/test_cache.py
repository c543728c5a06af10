"""What `make_cache` and `apply` with a cache refuse, and what they do where nothing can be refused."""

from functools import partial

import jax
import numpy as np
import pytest
from small_models import SMALL, random_parameters

import jaxgpt
from jaxgpt import ExecutionConfig, RequestError
from jaxgpt.model.serving import prepare

PARAMS = random_parameters(SMALL)
IDS = np.array([[1, 2], [3, 4]])
BOTH = SMALL.replace(family="encoder_decoder", layers=1)


@pytest.mark.parametrize(
    ("config", "sizes", "message"),
    [
        (SMALL, {"batch": 0, "length": 4}, "expected batch to be a whole number of at least 1, got 0"),
        (SMALL, {"batch": 1, "length": 2.0}, r"expected length to be a whole number of at least 1, got 2\.0"),
        (SMALL, {"batch": 1, "length": 7}, "length 7 is above the context of 6; ask for at most that"),
        (SMALL, {"batch": 1, "length": 4, "source_length": 4}, "source_length: got 4 for a model of family decoder"),
        (BOTH, {"batch": 1, "length": 4}, "source_length: got None .* pass the most tokens a source has"),
        (SMALL.replace(family="encoder"), {"batch": 1, "length": 4}, "an encoder reads its whole text at once"),
    ],
)
def test_a_cache_that_nothing_could_use_is_refused(config, sizes, message):
    with pytest.raises(RequestError, match=message):
        jaxgpt.make_cache(config, **sizes)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"positions_BT": IDS}, "positions_BT: with a cache, a row's tokens follow those it holds"),
        ({"segment_ids_BT": IDS}, "segment_ids_BT: with a cache, a row's tokens follow those it holds"),
        ({"mask_BT": np.array([[0, 1], [1, 1]])}, "padding stands behind a row's real tokens"),
    ],
)
def test_inputs_that_mean_nothing_behind_other_tokens_are_refused(inputs, message):
    with pytest.raises(RequestError, match=message):
        jaxgpt.apply(SMALL, PARAMS, IDS, cache=jaxgpt.make_cache(SMALL, 2, 6), **inputs)


def test_a_cache_of_another_shape_is_refused():
    with pytest.raises(RequestError, match=r"lengths_B: expected shape \[B=2\], got \[3\]"):
        jaxgpt.apply(SMALL, PARAMS, IDS, cache=jaxgpt.make_cache(SMALL, 3, 6))
    for change in ({"layers": 1}, {"kv_heads": 1}, {"family": "encoder_decoder"}):
        other = SMALL.replace(**change)
        room = {"source_length": 2} if other.family == "encoder_decoder" else {}
        cache = jaxgpt.make_cache(other, 2, 6, **room)
        with pytest.raises(RequestError, match="cache: it was made for another architecture"):
            jaxgpt.apply(SMALL, PARAMS, IDS, cache=cache)


def test_a_cache_of_another_number_format_is_refused():
    half = ExecutionConfig(compute_dtype="bfloat16")
    with pytest.raises(RequestError, match="it holds bfloat16, but the execution computes in float32"):
        jaxgpt.apply(SMALL, PARAMS, IDS, cache=jaxgpt.make_cache(SMALL, 2, 6, execution=half))


def test_a_cache_does_not_reach_beyond_the_context():
    rope = SMALL.replace(position="rope")
    params = random_parameters(rope)
    cache = jaxgpt.make_cache(rope, 2, 6).grown(20)
    with pytest.raises(RequestError, match="cache: it has room for 20 tokens and cannot shrink to 6"):
        cache.grown(6)
    step = jax.jit(partial(jaxgpt.apply, rope))
    _, cache = step(params, np.tile(IDS, 3), cache=cache)
    with pytest.raises(RequestError, match="a row would hold 8 tokens, above the context of 6"):
        jaxgpt.apply(rope, params, IDS, cache=cache)
    assert np.isnan(step(params, IDS, cache=cache)[0]).all()


def test_padding_before_a_token_gives_nan_where_it_cannot_be_refused():
    step = jax.jit(partial(jaxgpt.apply, SMALL))
    logits_BTV, _ = step(PARAMS, IDS, mask_BT=np.array([[0, 1], [1, 0]]), cache=jaxgpt.make_cache(SMALL, 2, 6))
    assert np.isnan(logits_BTV[0]).all()
    assert np.isfinite(logits_BTV[1]).all()


def test_a_source_mask_without_a_source_is_refused():
    params, cache = random_parameters(BOTH), jaxgpt.make_cache(BOTH, 2, 6, source_length=3)
    with pytest.raises(RequestError, match="source_mask_BS: there is no source_ids_BS"):
        jaxgpt.apply(BOTH, params, IDS, source_mask_BS=np.ones((2, 3), bool), cache=cache)


def test_a_token_too_many_is_refused_with_the_numbers_and_gives_nan_where_it_cannot_be():
    step = jax.jit(partial(jaxgpt.apply, SMALL))
    _, cache = step(PARAMS, IDS, cache=jaxgpt.make_cache(SMALL, 2, 3))
    with pytest.raises(RequestError, match="a row holds 2 tokens, and 2 more do not fit into its 3 slots"):
        jaxgpt.apply(SMALL, PARAMS, IDS, cache=cache)
    logits_BTV, _ = step(PARAMS, IDS, cache=cache)
    assert np.isnan(logits_BTV).all()
    logits_BTV, _ = step(PARAMS, IDS, cache=cache.grown(4))
    assert np.isfinite(logits_BTV).all()


def test_a_source_is_read_once_and_has_to_be():
    params, source = random_parameters(BOTH), np.array([[5, 6, 7], [8, 9, 1]])
    empty = jaxgpt.make_cache(BOTH, 2, 6, source_length=3)
    with pytest.raises(RequestError, match="the cache has read no source yet"):
        jaxgpt.apply(BOTH, params, IDS, cache=empty)
    small = jaxgpt.make_cache(BOTH, 2, 6, source_length=2)
    with pytest.raises(RequestError, match="room for a source of 2 tokens, got 3"):
        jaxgpt.apply(BOTH, params, IDS, source_ids_BS=source, cache=small)


def test_a_trace_with_a_cache_shows_the_keys_it_holds():
    _, cache = jaxgpt.apply(SMALL, PARAMS, IDS, cache=jaxgpt.make_cache(SMALL, 2, 5))
    _, cache, seen = jaxgpt.apply(SMALL, PARAMS, IDS, cache=cache, trace=True)
    assert seen["blocks_1/attention/weights"].shape == (2, 3, 2, 5)
    assert seen["blocks_1/attention/k"].shape == (2, 5, 3, 4)
    assert cache.lengths_B.tolist() == [4, 4]


def test_the_keys_of_a_cache_have_no_axis_of_size_1():
    shapes = {
        batch: jaxgpt.make_cache(SMALL.replace(kv_heads=1), batch, 5).blocks[0].attention.k.shape for batch in (1, 2)
    }
    assert shapes == {1: (5, 4), 2: (2, 5, 4)}


def test_matrices_are_prepared_in_the_number_format_of_the_execution():
    ready = prepare(SMALL, PARAMS, execution=ExecutionConfig(compute_dtype="bfloat16"))
    assert ready.tree["blocks_0"]["ffn"]["up"]["kernel"].matrix_OI.dtype == "bfloat16"
    assert ready.tree["token_embedding"].dtype == "float32"


def test_prepared_parameters_are_those_of_one_architecture():
    ready = prepare(SMALL, PARAMS)
    assert prepare(SMALL, ready) is ready
    with pytest.raises(RequestError, match="prepared for another architecture"):
        prepare(SMALL.replace(gelu="tanh"), ready)
    with pytest.raises(RequestError, match="missing final_norm/bias"):
        prepare(SMALL, PARAMS | {"final_norm": {"scale": PARAMS["final_norm"]["scale"]}})
