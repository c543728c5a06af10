"""Decoding from a cache = a full forward pass at every step; in any pieces; in a cache of any length."""

from functools import cache, partial

import jax
import numpy as np
import pytest
import reference_numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import ARCHITECTURES, random_ids, random_inputs, random_parameters

import jaxgpt
from jaxgpt.generation import widths
from jaxgpt.generation.generate import generate
from jaxgpt.model.serving import prepare

DECODERS = {name: config for name, config in ARCHITECTURES.items() if config.family != "encoder"}
B, T = 3, 6
KEY = jax.random.key(2)
LLAMA = ARCHITECTURES["llama-like"].replace(context_length=24)


@cache
def compiled(config):
    """Return `apply` of an architecture, one program for each size of a piece and of a cache."""
    return jax.jit(partial(jaxgpt.apply, config))


def source_of(config):
    """A padded source for each row, where the family reads one."""
    inputs = random_inputs(config)
    return {name: inputs[name] for name in ("source_ids_BS", "source_mask_BS") if name in inputs}


def full_forward(config, params, ids_BT):
    """The float64 reference, over the whole rows at once."""
    source = source_of(config).values()
    return reference_numpy.forward(config, params, ids_BT, None, *source)


def cache_for(config, length=T, batch=B):
    source = source_of(config)
    room = {"source_length": source["source_ids_BS"].shape[1] + 1} if source else {}
    return jaxgpt.make_cache(config, batch, length, **room)


def read_in_pieces(config, params, ids_BT, pieces, cache):
    """Return the logits of all positions, read piece by piece."""
    step = compiled(config)
    source, start, logits = source_of(config), 0, []
    for size in pieces:
        piece_BTV, cache = step(params, ids_BT[:, start : start + size], cache=cache, **source)
        source, start = {}, start + size
        logits.append(piece_BTV)
    return np.concatenate(logits, axis=1)


def deviation(got, want):
    return np.abs(got - want).max() / np.abs(want).max()


@pytest.mark.ci
@pytest.mark.parametrize("config", DECODERS.values(), ids=DECODERS)
def test_logits_of_each_step_are_those_of_the_float64_reference(config):
    params, ids_BT = random_parameters(config), random_ids(config, B, T)
    full_BTV = full_forward(config, params, ids_BT)
    steps_BTV = read_in_pieces(config, params, ids_BT, [1] * T, cache_for(config))
    assert deviation(steps_BTV, full_BTV) <= 1e-5
    assert (steps_BTV.argmax(-1) == full_BTV.argmax(-1)).all()


@pytest.mark.parametrize("config", DECODERS.values(), ids=DECODERS)
def test_rows_of_several_lengths_read_in_pieces_are_those_of_the_float64_reference(config):
    """Rows end in the first, the second and the third piece, and inside one; a source is read with the first."""
    params, ids_BT = random_parameters(config), random_ids(config, B, T)
    full_BTV = full_forward(config, params, ids_BT)
    mask_BT = np.arange(T) < np.array([1, 4, 5])[:, None]
    step, source, cache = compiled(config), source_of(config), cache_for(config)
    for start in range(0, T, 2):
        piece = slice(start, start + 2)
        padded_BT = np.where(mask_BT, ids_BT, 7)[:, piece]
        piece_BTV, cache = step(params, padded_BT, mask_BT=mask_BT[:, piece], cache=cache, **source)
        source, real_BT = {}, mask_BT[:, piece]
        assert not real_BT.any() or deviation(piece_BTV[real_BT], full_BTV[:, piece][real_BT]) <= 1e-5
    assert cache.lengths_B.tolist() == [1, 4, 5]
    next_B1V, _ = step(params, ids_BT[[0, 1, 2], [1, 4, 5]][:, None], cache=cache)
    assert deviation(next_B1V[:, 0], full_BTV[[0, 1, 2], [1, 4, 5]]) <= 1e-5


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=2, max_size=5), st.sampled_from([15, 24]))
def test_any_pieces_and_any_length_of_the_cache_give_the_same(pieces, length):
    params, ids_BT = random_parameters(LLAMA), random_ids(LLAMA, B, sum(pieces))
    pieces_BTV = read_in_pieces(LLAMA, params, ids_BT, pieces, cache_for(LLAMA, length))
    assert deviation(pieces_BTV, full_forward(LLAMA, params, ids_BT)) <= 1e-5


@pytest.mark.parametrize("config", [LLAMA, ARCHITECTURES["encoder_decoder"]], ids=["decoder", "encoder_decoder"])
def test_prepared_parameters_give_the_same_logits(config):
    params, ids_BT = random_parameters(config), random_ids(config, B, T)
    full_BTV = full_forward(config, params, ids_BT)
    for ids in (ids_BT, np.tile(ids_BT, (2, 1))):  # few rows of a product, and many
        source = {name: np.tile(array, (len(ids) // B, 1)) for name, array in source_of(config).items()}
        got_BTV = jax.jit(jaxgpt.Transformer(config).apply)({"params": prepare(config, params).tree}, ids, **source)
        assert deviation(got_BTV[:B], full_BTV) <= 1e-5


ROPE = ARCHITECTURES["llama-like"].replace(context_length=40, layers=1)
WINDOW = ARCHITECTURES["gpt2-like"].replace(context_length=40, layers=1, window=5)


@pytest.mark.ci
@pytest.mark.parametrize("config", [ROPE, WINDOW], ids=["rope", "window"])
def test_ids_do_not_depend_on_the_widths_that_programs_are_compiled_for(config, monkeypatch):
    params = random_parameters(config)
    prompts = [random_ids(config, 1, length, length)[0].tolist() for length in (3, 9, 5)]

    def continued():
        return generate(config, params, prompts, max_new_tokens=28, temperature=0.9, key=KEY).ids

    wide = continued()
    monkeypatch.setattr(widths, "_SMALLEST_WIDTH", 2)
    monkeypatch.setattr(widths, "_WIDEST_CHUNK", 4)
    monkeypatch.setattr(widths, "_FEWEST_SLOTS", 1)
    assert widths.room_for(9, 36, 40) == 32  # so that the cache grows
    assert continued() == wide
