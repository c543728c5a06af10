"""Folders written for transformers: whole or not at all, without a second head, and back to the same bits."""

import json
import stat
import struct

import jax
import numpy as np
import pytest
from foreign_models import same_bits
from small_models import SMALL, random_ids, random_parameters

from jaxgpt import RequestError, WorkError, apply
from jaxgpt.data.tokenizer import ByteTokenizer, CharacterTokenizer, tokenizer_from_path
from jaxgpt.interop import hugging_face
from jaxgpt.interop.architectures import write_config
from jaxgpt.interop.hugging_face import export, read_folder
from jaxgpt.interop.keys import expected_keys
from jaxgpt.model.specs import parameter_specs, walk

LLAMA_LIKE = SMALL.replace(
    norm="rmsnorm", norm_bias=False, position="rope", ffn="swiglu", attention_bias=False, attention_out_bias=False,
    ffn_bias=False, kv_heads=1, width=15, head_size=4, heads=3,
)  # fmt: skip
CONFIGS = {
    "gpt2": SMALL,
    "gpt2 untied": SMALL.replace(tied_head=False, ffn_width=5),
    "llama": LLAMA_LIKE,
    "llama untied, biases": LLAMA_LIKE.replace(
        tied_head=False, attention_bias=True, attention_out_bias=True, ffn_bias=True
    ),
    "mistral": LLAMA_LIKE.replace(window=2),
    "qwen2": LLAMA_LIKE.replace(attention_bias=True),
    "qwen3": LLAMA_LIKE.replace(qk_norm=True, tied_head=False),
}


@pytest.fixture
def write(tmp_path):
    """Return a function that exports a config with random parameters, no warning expected."""

    def run(config, tokenizer=None, *, params=None, to="out"):
        params = random_parameters(config) if params is None else params
        words = export(tmp_path / to, config, params, tokenizer, warn=pytest.fail)
        return tmp_path / to, params, words

    return run


@pytest.mark.parametrize("name", CONFIGS)
def test_out_and_in_keeps_every_bit_and_out_again_every_byte(write, name):
    path, params, words = write(CONFIGS[name])
    reading = read_folder(path, pytest.fail)
    assert reading.config == CONFIGS[name]
    assert same_bits(reading.params, params)
    assert f"Hugging Face {name.split()[0]} folder, " in words
    again, _, _ = write(reading.config, params=reading.params, to="again")
    assert {file.name for file in path.iterdir()} == {"config.json", "model.safetensors"}
    for file in path.iterdir():
        assert file.read_bytes() == (again / file.name).read_bytes()


@pytest.mark.parametrize("name", CONFIGS)
def test_every_parameter_lies_under_one_key(name):
    architecture, _ = write_config(CONFIGS[name], pytest.fail)
    paths = [part.path for parts in expected_keys(architecture.keys, CONFIGS[name]).values() for part in parts]
    assert sorted(paths) == sorted(path for path, _ in walk(parameter_specs(CONFIGS[name])))


def test_the_header_says_pt_and_a_tied_head_is_not_there_twice(write):
    raw = (write(SMALL)[0] / "model.safetensors").read_bytes()
    header = json.loads(raw[8 : 8 + struct.unpack("<Q", raw[:8])[0]])
    assert header.pop("__metadata__") == {"format": "pt"}
    assert "lm_head.weight" not in header
    assert {entry["dtype"] for entry in header.values()} == {"F32"}


def test_both_files_can_be_read_by_whom_the_folder_can(write):
    modes = {stat.S_IMODE(file.stat().st_mode) for file in write(SMALL)[0].iterdir()}
    assert len(modes) == 1


def test_interleaved_pairs_are_written_as_halves_of_the_same_model(write):
    config = LLAMA_LIKE.replace(
        rope_pairing="interleaved", qk_norm=True, attention_bias=True, attention_out_bias=True
    )
    path, params, _ = write(config)
    reading = read_folder(path, pytest.fail)
    assert reading.config == config.replace(rope_pairing="half")
    ids, forward = random_ids(config), jax.jit(apply, static_argnums=0)
    wanted = np.asarray(forward(config, params, ids))
    assert np.abs(forward(reading.config, reading.params, ids) - wanted).max() <= 1e-5 * np.abs(wanted).max()


def gpt2_tokenizer(test_data):
    return tokenizer_from_path(test_data / "gpt2-bpe" / "vocab.bpe")


def json_tokenizer(test_data):
    return tokenizer_from_path(test_data / "stories260K" / "hf")


def character_tokenizer(_):
    return CharacterTokenizer(tuple("abcdefghijk"))


@pytest.mark.parametrize("make", [gpt2_tokenizer, json_tokenizer, character_tokenizer])
def test_the_tokenizer_goes_along_and_comes_back(write, test_data, make):
    tokenizer = make(test_data)
    path, _, _ = write(SMALL.replace(vocab_size=tokenizer.vocab_size), tokenizer)
    assert read_folder(path, pytest.fail).tokenizer == tokenizer


def test_a_tokenizer_without_a_file_is_left_out_with_a_warning(tmp_path):
    config, said = SMALL.replace(vocab_size=256), []
    export(tmp_path / "out", config, random_parameters(config), ByteTokenizer(), warn=said.append)
    assert said == ["the tokenizer is left out: its kind has no file that transformers reads"]
    assert tokenizer_from_path(tmp_path / "out") is None


def test_special_tokens_are_named_and_none_is_left_to_transformers(write, test_data):
    tokenizer = tokenizer_from_path(test_data / "stories260K" / "hf")
    path, _, _ = write(SMALL.replace(vocab_size=512), tokenizer)
    document = json.loads((path / "config.json").read_text())
    assert [document[f"{role}_token_id"] for role in ("bos", "eos", "pad")] == [1, 2, None]
    assert read_folder(path, pytest.fail).tokenizer == tokenizer
    document = json.loads((write(SMALL, to="bare")[0] / "config.json").read_text())
    assert [document[f"{role}_token_id"] for role in ("bos", "eos", "pad")] == [None, None, None]


def test_nothing_is_written_over(write, tmp_path):
    (tmp_path / "out").mkdir()
    write(SMALL)  # an empty folder is as good as none
    with pytest.raises(RequestError, match=r"out exists already; name a folder that is new or empty"):
        write(SMALL)
    (tmp_path / "file").touch()
    with pytest.raises(RequestError, match=r"file exists already"):
        write(SMALL, to="file")


def test_parameters_of_another_architecture_are_refused(write, tmp_path):
    with pytest.raises(RequestError, match=r"token_embedding"):
        write(SMALL, params=random_parameters(SMALL.replace(vocab_size=5)))
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_nothing_behind(write, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(hugging_face, "save_file", full)
    with pytest.raises(WorkError, match=r"cannot write .*out: .*No space left on device; make room"):
        write(SMALL)
    assert not list(tmp_path.iterdir())
