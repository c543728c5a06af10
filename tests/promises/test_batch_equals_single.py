"""A prompt alone = the same prompt in a ragged batch: logits within 1e-5, the same ids, the same samples."""

from functools import partial

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import ARCHITECTURES, random_parameters

import jaxgpt
from jaxgpt import ExecutionConfig, ModelConfig
from jaxgpt.generation.generate import generate

CONFIG = ModelConfig(vocab_size=11, context_length=40, width=12, layers=1, heads=3)
PARAMS = random_parameters(CONFIG)
LENGTHS = (1, 5, 24, 30)  # in a batch the last one widens the window of all from 32 to 40
PROMPTS = [np.random.default_rng(n).integers(0, CONFIG.vocab_size, n).tolist() for n in LENGTHS]
NEW = 10


@pytest.mark.parametrize("attention", ["dense", pytest.param("reference", marks=pytest.mark.ci)])
def test_logits_of_a_right_padded_row_are_those_of_the_row_alone(attention):
    forward = jax.jit(partial(jaxgpt.apply, CONFIG, execution=ExecutionConfig(attention=attention)))
    token_ids_BT = np.zeros((len(PROMPTS), 40), np.int32)
    for row_T, prompt in zip(token_ids_BT, PROMPTS, strict=True):
        row_T[: len(prompt)] = prompt
    together_BTV = np.asarray(forward(PARAMS, token_ids_BT))
    for row_TV, prompt in [*zip(together_BTV, PROMPTS, strict=True)][1:3]:  # each length is a program of its own
        alone_TV = np.asarray(forward(PARAMS, np.array([prompt])))[0]
        assert np.abs(row_TV[: len(prompt)] - alone_TV).max() <= 1e-5 * np.abs(alone_TV).max()


@pytest.mark.parametrize(
    "options",
    [{"temperature": 0}, {"temperature": 1.0}, {"temperature": 0.7, "top_k": 6, "top_p": 0.9}],
    ids=["greedy", "sampled", "sampled with filters"],
)
def test_the_ids_of_a_prompt_are_those_it_gets_alone(options):
    def continued(prompts):
        return generate(CONFIG, PARAMS, prompts, max_new_tokens=NEW, key=jax.random.key(3), **options).ids

    assert continued(PROMPTS) == [continued([prompt])[0] for prompt in PROMPTS]


FAMILIES = [name for name, config in ARCHITECTURES.items() if config.family != "encoder"]


@pytest.mark.ci
@pytest.mark.parametrize("name", FAMILIES)
def test_the_ids_of_a_prompt_are_those_it_gets_alone_in_every_architecture(name):
    config = ARCHITECTURES[name].replace(context_length=24)
    params = random_parameters(config)
    prompts = [prompt[:12] for prompt in PROMPTS[:3]]
    sources = [[1, 2, 3], [4], [5, 6, 7, 8, 9]] if config.family == "encoder_decoder" else None

    def continued(rows):
        some = sources and [sources[row] for row in rows]
        options = {"sources": some, "max_new_tokens": NEW, "key": jax.random.key(3), "n": 2}
        return generate(config, params, [prompts[row] for row in rows], **options).ids

    assert continued(range(3)) == [ids for row in range(3) for ids in continued([row])]


@pytest.mark.parametrize("temperature", [0, 1.0])
def test_the_ids_of_a_prompt_are_those_it_gets_alone_when_the_context_is_cropped(temperature):
    prompts = [*PROMPTS, np.random.default_rng(9).integers(0, CONFIG.vocab_size, 60).tolist()]

    def continued(prompts):
        options = {"temperature": temperature, "context_policy": "crop"}
        return generate(CONFIG, PARAMS, prompts, max_new_tokens=20, key=jax.random.key(3), **options).ids

    assert continued(prompts) == [continued([prompt])[0] for prompt in prompts]


@settings(max_examples=20, deadline=None)
@given(
    neighbour=st.lists(st.integers(0, CONFIG.vocab_size - 1), min_size=1, max_size=20),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_neighbour_of_any_content_changes_nothing(neighbour, seed):
    def continued(prompts):
        return generate(CONFIG, PARAMS, prompts, max_new_tokens=4, key=jax.random.key(seed)).ids

    assert continued([PROMPTS[1], neighbour])[0] == continued([PROMPTS[1], PROMPTS[1]])[0]
