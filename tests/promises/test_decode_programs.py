"""The compiled decode step copies no cache, and a whole generation compiles each program once for each size."""

import logging
import re
from collections import Counter

import hlo
import jax
import jax.numpy as jnp
import pytest
from small_models import random_parameters

import jaxgpt
from jaxgpt import ExecutionConfig, ModelConfig
from jaxgpt.generation import programs
from jaxgpt.generation.generate import generate
from jaxgpt.generation.lookup import PromptLookup
from jaxgpt.generation.sampling import Sampling
from jaxgpt.generation.speculative import decode_speculatively

CONFIG = ModelConfig(vocab_size=17, context_length=256, width=32, layers=2, heads=4)
KEY = jax.random.key(0)


def state_of(config, batch, slots):
    source_length = 8 if config.family == "encoder_decoder" else None
    zero_B = jnp.zeros(batch, jnp.int32)
    return programs.State(
        jaxgpt.make_cache(config, batch, slots, source_length=source_length),
        zero_B,
        zero_B,
        zero_B > 0,
        jnp.zeros((batch, config.vocab_size), bool),
        jax.random.split(KEY, batch),
    )


def compiled_decode(config, batch, slots=256, lookup=None):
    tree = jaxgpt.prepare(config, random_parameters(config)).tree
    state, sampling = state_of(config, batch, slots), Sampling().traced(config.vocab_size)
    ends, steps = programs.Ends(jnp.full(8, -3), jnp.int32(9)), jnp.int32(9)
    if lookup is None:
        lowered = programs.decode.lower(
            config, ExecutionConfig(), tree, state, sampling, ends, steps, width=16, logprobs=False
        )
    else:
        ids_BN = jnp.zeros((batch, slots + 5), jnp.int32)
        lowered = decode_speculatively.lower(
            config, ExecutionConfig(), lookup, tree, state, ids_BN, sampling, ends, steps, width=4, logprobs=False
        )
    return lowered.compile(), state.cache.blocks[0].attention.k.size


@pytest.mark.parametrize("batch", [1, pytest.param(3, marks=pytest.mark.ci)])
@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        pytest.param(CONFIG.replace(kv_heads=1, position="rope", head_size=8, window=20), marks=pytest.mark.ci),
        pytest.param(CONFIG.replace(family="encoder_decoder", layers=1), marks=pytest.mark.ci),
    ],
    ids=["many heads", "one key head, rope, window", "encoder_decoder"],
)
def test_no_step_copies_a_cache(config, batch):
    compiled, size = compiled_decode(config, batch)
    assert hlo.copies(compiled, size) == []


@pytest.mark.ci
@pytest.mark.parametrize("batch", [1, 3])
def test_no_speculative_step_copies_a_cache(batch):
    compiled, size = compiled_decode(CONFIG, batch, lookup=PromptLookup())
    assert hlo.copies(compiled, size) == []


def test_reading_a_prompt_and_choosing_the_first_token_copy_no_cache_either():
    tree = jaxgpt.prepare(CONFIG, random_parameters(CONFIG)).tree
    cache, logits_BV = jaxgpt.make_cache(CONFIG, 2, 256), jnp.zeros((2, CONFIG.vocab_size))
    ids_BT, size = jnp.zeros((2, 4), jnp.int32), cache.blocks[0].attention.k.size
    read = programs.prefill.lower(CONFIG, ExecutionConfig(), tree, cache, logits_BV, ids_BT, ids_BT == 0, {})
    assert hlo.copies(read.compile(), size) == []
    sampling, ends = Sampling().traced(CONFIG.vocab_size), programs.Ends(jnp.full(8, -3), jnp.int32(9))
    first = programs.begin.lower(logits_BV, cache, logits_BV > 0, KEY, sampling, ends, n=1, logprobs=False)
    assert hlo.copies(first.compile(), size) == []


@pytest.mark.ci
@pytest.mark.parametrize("batch", [1, 3])
def test_a_long_cache_is_not_copied_either(batch):
    """From 1,024 slots on attention reads a span of the cache, chosen as the program runs."""
    compiled, size = compiled_decode(CONFIG.replace(context_length=2048), batch, slots=2048)
    assert hlo.copies(compiled, size) == []


def test_a_copy_would_be_found():
    def kept(x):
        return x, x.at[0].set(1)  # what is donated and changed has to stay as well

    x = jnp.zeros((64, 64))
    assert hlo.copies(jax.jit(kept, donate_argnums=0).lower(x).compile(), x.size) != []


def compilations(text):
    return Counter(re.findall(r"Finished XLA compilation of jit\((\w+)\)", text))


@pytest.mark.ci
def test_a_generation_compiles_each_program_once_for_each_size(caplog):
    config = CONFIG.replace(width=16, layers=1, heads=2, context_length=900)  # that no other test has compiled
    params = jaxgpt.prepare(config, random_parameters(config))
    prompt = [1, 2] * 265  # read in pieces of 512 and 32
    with jax.log_compiles(True), caplog.at_level(logging.WARNING):
        generate(config, params, [[1, 2]], max_new_tokens=890, key=KEY)
        generate(config, params, [prompt], max_new_tokens=300, key=KEY)
    counts = compilations(caplog.text)
    assert counts["decode"] == 2  # 256 and 900 slots
    assert counts["prefill"] == 3  # 32 tokens into 256 slots, 512 and 32 into 900
    assert counts["begin"] == 2
    caplog.clear()
    with jax.log_compiles(True), caplog.at_level(logging.WARNING):
        for options in ({}, {"temperature": 0}, {"temperature": 0.5, "top_k": 3, "top_p": 0.4, "min_p": 0.1}):
            generate(config, params, [[3, 4, 5]], max_new_tokens=880, key=jax.random.key(1), stop_ids=[9], **options)
        generate(config, params, [prompt[:-5]], max_new_tokens=200, key=KEY)
    again = compilations(caplog.text)
    assert not {"prefill", "begin", "decode"} & set(again)
