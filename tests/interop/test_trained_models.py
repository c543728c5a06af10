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


def test_its_loss_and_its_logits_are_those_of_transformers(model, expected):
    config, params, _ = model
    ids = np.array([expected["input_ids"]])
    batch = {"token_ids_BT": ids[:, :-1], "target_ids_BT": ids[:, 1:], "weights_BT": np.ones((1, ids.shape[1] - 1))}
    assert abs(float(jaxgpt.loss(config, params, batch)[0]) - expected["loss_mean_next_token"]) < 1e-5
    last_V = np.asarray(jaxgpt.apply(config, params, ids))[0, -1]
    largest = np.abs(expected["last_logits"]).max()
    assert np.abs(last_V - expected["last_logits"]).max() < 1e-4 * largest


def test_its_greedy_text_is_that_of_llama2c_character_for_character(stories, model, expected):
    config, params, tokenizer = model
    new = len(expected["input_ids"]) - 1
    ids = jaxgpt.generate(config, params, [[1]], max_new_tokens=new, temperature=0, key=jax.random.key(0)).ids[0]
    assert ids == expected["input_ids"]
    assert tokenizer.decode(ids[1:]) + "\n" == (stories / "greedy_reference.txt").read_text()


def test_a_gpt2_of_characters(test_data):
    folder = test_data / "shakespeare-char-gpt2"
    expected = json.loads((folder / "expected.json").read_text())
    config, params, tokenizer = jaxgpt.load(folder / "hf", warn=pytest.fail)
    assert tokenizer is None
    logits_TV = np.asarray(jaxgpt.apply(config, params, np.array([expected["prompt_ids"]])))[0]
    assert np.abs(logits_TV[-1] - expected["logits_last_of_prompt"]).max() < 1e-4
    assert np.abs(logits_TV.sum(-1) - expected["logit_sum_per_prompt_position"]).max() < 1e-3
    ids = jaxgpt.generate(
        config, params, [expected["prompt_ids"]], max_new_tokens=57, temperature=0, key=jax.random.key(0)
    ).ids[0]
    assert ids == expected["greedy_ids_to_context_64"]
    assert tokenizer_from_path(folder / "vocab.json").decode(ids) == expected["greedy_text"]
