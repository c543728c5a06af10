"""`jaxgpt.load`: one name for runs and for the files of others, and a word on everything else."""

import json

import numpy as np
import pytest
from foreign_models import GPT2, gpt2_arrays, llama_arrays, write_safetensors
from small_models import SMALL, random_parameters

import jaxgpt
from jaxgpt import ExecutionConfig, RequestError
from jaxgpt.data.tokenizer import CharacterTokenizer
from jaxgpt.interop.opening import load, open_config, open_model, open_tokenizer

CHARACTERS = ["a", "b", "c", "d", "e", "f", "g"]


@pytest.fixture
def llama2c_file(tmp_path):
    """A file of one block: dim 2, hidden_dim 3, one head, V 4, T 5."""

    def write(name):
        floats = 4 * 2 + 2 + 4 * 4 + 2 + 3 * 6 + 2 + 2 * 5
        path = tmp_path / name
        path.write_bytes(np.array([2, 3, 1, 1, 1, 4, 5], "<i4").tobytes() + bytes(4 * floats))
        return path

    return write


def test_a_run_is_read_as_before(tmp_path):
    jaxgpt.save(tmp_path / "run", SMALL, random_parameters(SMALL))
    opened = open_model(tmp_path / "run", pytest.fail)
    assert (opened.config, opened.tokenizer, opened.step) == (SMALL, None, 0)
    assert opened.source == "run directory, step 0"
    assert open_config(tmp_path / "run", pytest.fail) == SMALL


def test_a_hugging_face_folder_loads_with_its_tokenizer(folder):
    path = folder(GPT2, gpt2_arrays())
    assert load(str(path), warn=pytest.fail)[2] is None
    (path / "vocab.json").write_text(json.dumps(CHARACTERS))
    config, params, tokenizer = jaxgpt.load(path, warn=pytest.fail)
    assert tokenizer == CharacterTokenizer(tuple(CHARACTERS))
    assert np.array_equal(params["token_embedding"], gpt2_arrays()["transformer.wte.weight"])
    assert open_config(path, pytest.fail) == config
    opened = open_model(path, pytest.fail)
    assert (opened.execution, opened.step) == (ExecutionConfig(), 0)
    assert (
        opened.words(tokenizer) == "Hugging Face gpt2 folder, 28 keys, float32, 544 parameters, tokenizer with 7 ids"
    )


def test_the_tokenizer_is_read_without_the_weights(folder, tmp_path, llama2c_file):
    path = folder(GPT2)
    assert open_tokenizer(path, pytest.fail) is None
    jaxgpt.save(tmp_path / "run", SMALL, random_parameters(SMALL), CharacterTokenizer(("a", "b")))
    assert open_tokenizer(tmp_path / "run", pytest.fail) == CharacterTokenizer(("a", "b"))
    (path / "vocab.json").write_text(json.dumps(CHARACTERS))
    assert open_tokenizer(path, pytest.fail) == CharacterTokenizer(tuple(CHARACTERS))
    assert open_tokenizer(llama2c_file("model.bin"), pytest.fail) is None


def test_a_folder_may_pad_its_vocabulary_but_have_no_id_that_the_model_lacks(folder):
    path = folder(GPT2, gpt2_arrays())
    (path / "vocab.json").write_text(json.dumps(CHARACTERS[:5]))
    assert load(path, warn=pytest.fail)[2].vocab_size == 5
    (path / "vocab.json").write_text(json.dumps([*CHARACTERS, "h"]))
    with pytest.raises(RequestError, match=r"folder: the tokenizer has 8 ids, the model only 7"):
        load(path)


def test_a_tokenizer_that_cannot_be_read_costs_a_warning_and_not_the_weights(folder):
    path, said = folder(GPT2, gpt2_arrays()), []
    (path / "tokenizer.model").write_bytes(b"\n\x0e")
    assert load(path, warn=said.append)[2] is None
    assert len(said) == 1
    assert "the tokenizer is left out: " in said[0]
    assert "SentencePiece" in said[0]


def test_a_llama2c_file_is_found_by_its_name_or_alone_in_its_folder(tmp_path, llama2c_file):
    path = llama2c_file("stories.bin")
    (tmp_path / "tok4.bin").write_bytes(b"\x04\0\0\0")
    assert load(path)[0] == load(tmp_path)[0] == open_config(path, pytest.fail)
    llama2c_file("other.bin")
    with pytest.raises(RequestError, match=r"and 2 llama2.c files: name one of them"):
        load(tmp_path)


def test_what_is_none_of_them_is_refused_with_what_it_is(tmp_path):
    expected = "expected a run directory, a Hugging Face folder or a llama2.c file"
    with pytest.raises(RequestError, match=rf"absent does not exist; {expected}, check the path"):
        load(tmp_path / "absent")
    (tmp_path / "cat.png").write_bytes(b"\x89PNG")
    with pytest.raises(RequestError, match=rf"cat.png is a file; {expected} \(.bin\)"):
        load(tmp_path / "cat.png")
    with pytest.raises(
        RequestError, match=r"it has no manifest.json and no config.json, it holds cat.png: name a fo"
    ):
        load(tmp_path)
    write_safetensors(tmp_path / "model.safetensors", llama_arrays())
    with pytest.raises(RequestError, match=r"has no architecture in it; name its folder, with the config.json"):
        load(tmp_path / "model.safetensors")


@pytest.mark.parametrize("first", [b"PK\x03\x04", b"\x80\x02}q", b"\x80\x05\x95"])
@pytest.mark.parametrize("name", ["model.pt", "pytorch_model.bin", "weights.pth"])
def test_a_pickle_is_refused_by_its_content_wherever_it_lies(tmp_path, name, first):
    (tmp_path / name).write_bytes(first + bytes(100))
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(RequestError, match=rf"{name} is a pickle, which can run any code"):
            load(path)


def test_a_file_that_may_not_be_read_is_one_message(tmp_path, llama2c_file, monkeypatch):
    path = llama2c_file("model.bin")

    def refuse(self, *_):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr("pathlib.Path.open", refuse)  # a mode would not hinder root
    with pytest.raises(RequestError, match=r"cannot read .*model.bin: Permission denied; check its permissions"):
        load(path)
