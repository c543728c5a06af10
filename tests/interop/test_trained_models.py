"""Two small trained models of others: their losses, logits and texts."""

import json

import jax
import numpy as np
import pytest
from foreign_models import same_bits

import jaxgpt
from jaxgpt.data.tokenizer import tokenizer_from_path


@pytest.fixture(scope="module")
def stories(test_data):
    return test_data / "stories260K"


@pytest.fixture(scope="module")
def expected(stories):
    return json.loads((stories / "expected.json").read_text())


@pytest.fixture(scope="module")
def model(stories):
    return jaxgpt.load(stories / "hf", warn=pytest.fail)


def test_the_llama2c_file_and_the_folder_hold_the_same_model(stories, model):
    for path in (stories / "stories260K.bin", stories):
        config, params, tokenizer = jaxgpt.load(path, warn=pytest.fail)
        assert config == model[0]
        assert same_bits(params, model[1])
        assert tokenizer is None


def logits_of(config, params, ids):
    """[T,V], of one row, compiled once for the whole row."""
    return np.asarray(jax.jit(jaxgpt.apply, static_argnums=0)(config, params, np.array([ids])))[0]


@pytest.fixture(scope="module")
def logits(model, expected):
    return logits_of(*model[:2], expected["input_ids"]).astype(np.float64)


def test_its_loss_is_that_of_transformers(logits, expected):
    targets_T = expected["input_ids"][1:]
    normalisers_T = np.log(np.exp(logits[:-1]).sum(-1))
    loss = (normalisers_T - logits[np.arange(len(targets_T)), targets_T]).mean()
    assert abs(loss - expected["loss_mean_next_token"]) < 1e-5


def test_its_logits_are_those_of_transformers(logits, expected):
    assert np.abs(logits[-1] - expected["last_logits"]).max() < 1e-4 * np.abs(expected["last_logits"]).max()


def test_its_greedy_text_is_that_of_llama2c_character_for_character(stories, model, logits, expected):
    """Each most likely token is the next one, from id 1 on."""
    assert expected["input_ids"][0] == 1
    ids_T = logits[:-1].argmax(-1)
    assert ids_T.tolist() == expected["input_ids"][1:]
    assert model[2].decode(ids_T) + "\n" == (stories / "greedy_reference.txt").read_text()


@pytest.mark.ci
def test_generate_writes_that_text(model, expected):
    new = len(expected["input_ids"]) - 1
    ids = jaxgpt.generate(*model[:2], [[1]], max_new_tokens=new, temperature=0, key=jax.random.key(0)).ids[0]
    assert ids == expected["input_ids"]


def test_a_gpt2_of_characters(test_data):
    folder = test_data / "shakespeare-char-gpt2"
    expected = json.loads((folder / "expected.json").read_text())
    prompt, ids = expected["prompt_ids"], expected["greedy_ids_to_context_64"]
    config, params, tokenizer = jaxgpt.load(folder / "hf", warn=pytest.fail)
    assert tokenizer is None
    logits_TV = logits_of(config, params, ids)
    assert np.abs(logits_TV[len(prompt) - 1] - expected["logits_last_of_prompt"]).max() < 1e-4
    assert np.abs(logits_TV[: len(prompt)].sum(-1) - expected["logit_sum_per_prompt_position"]).max() < 1e-3
    assert logits_TV[len(prompt) - 1 : -1].argmax(-1).tolist() == ids[len(prompt) :]
    assert tokenizer_from_path(folder / "vocab.json").decode(ids) == expected["greedy_text"]
