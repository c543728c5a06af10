"""Which tokenizer a run takes: the one its parameters know, and never another in silence."""

import json
from pathlib import Path

import pytest
from small_models import random_parameters

import jaxgpt
from jaxgpt.config import RequestError
from jaxgpt.data import ByteTokenizer, CharacterTokenizer, load_corpus
from jaxgpt.runs.directory import RunDirectory
from jaxgpt.runs.manifest import Manifest
from jaxgpt.training.material import gather_material
from jaxgpt.training.setup import changed_settings


def material(config, manifest=None):
    existing = None if manifest is None else RunDirectory(Path("nowhere"), manifest)
    return gather_material(config, existing, pytest.fail)


def manifest_of(material):
    return Manifest(config=material.config, data=material.sources.identity, tokenizer=material.tokenizer.to_json())


@pytest.fixture
def begun(tiny):
    """The manifest of a run that began with the characters of its text."""
    return manifest_of(material(tiny()))


@pytest.fixture
def model(tiny, tmp_path):
    """Return a function that saves a model of the tiny architecture with a tokenizer, or without one."""

    def save(tokenizer, vocab_size):
        config = tiny().model.replace(vocab_size=vocab_size)
        jaxgpt.save(tmp_path / "base", config, random_parameters(config), tokenizer)
        return str(tmp_path / "base")

    return save


@pytest.fixture
def table_of(tmp_path):
    """Return a function that writes a tokenizer of so many characters and returns its path."""

    def write(count):
        (tmp_path / "vocab.json").write_text(json.dumps([chr(i) for i in range(count)]))
        return str(tmp_path / "vocab.json")

    return write


def test_a_run_takes_the_tokenizer_that_it_names(tiny, text_file):
    assert material(tiny()).tokenizer == CharacterTokenizer.train(text_file.read_text())
    named = material(tiny({"data.tokenizer": "bytes"}))
    assert (named.tokenizer, named.config.model.vocab_size) == (ByteTokenizer(), 256)


def test_tiny_shakespeare_is_cut_by_its_characters_whatever_the_tokenizer(tiny, test_data):
    text, merges = test_data / "tinyshakespeare" / "input.txt", test_data / "gpt2-bpe" / "vocab.bpe"
    split = material(tiny({"data.path": str(text), "data.tokenizer": str(merges)}))
    assert (split.splits.train_size, split.splits.validation_size) == (301_966, 36_059)


def test_a_continued_run_may_name_its_tokenizer_otherwise_but_not_name_another(tiny, begun, text_file, tmp_path):
    table = tmp_path / "vocab.json"
    table.write_text(json.dumps(sorted(set(text_file.read_text()))))
    wanted = tiny({"data.tokenizer": str(table)})
    assert changed_settings(begun.config, wanted) == {"data.tokenizer": (None, str(table))}
    assert material(wanted, begun).tokenizer == CharacterTokenizer.train(text_file.read_text())
    with pytest.raises(RequestError, match=r"data\.tokenizer has 256 ids, .* but this run was trained with 28 ids"):
        material(tiny({"data.tokenizer": "bytes"}), begun)


def test_a_continued_run_needs_no_file_of_its_tokenizer(tiny, text_file, tmp_path):
    table = tmp_path / "vocab.json"
    table.write_text(json.dumps(sorted(set(text_file.read_text()), reverse=True)))
    first = material(tiny({"data.tokenizer": str(table)}))
    table.unlink()
    assert material(first.config, manifest_of(first)).tokenizer == first.tokenizer
    assert first.tokenizer.characters[0] == "z"


def test_a_continued_run_may_find_its_text_elsewhere(tiny, begun, text_file, tmp_path):
    moved = text_file.rename(tmp_path / "moved.txt")
    wanted = tiny({"data.path": str(moved)})
    assert list(changed_settings(begun.config, wanted)) == ["data.path"]
    assert material(wanted, begun).sources.training == (load_corpus(str(moved)),)


def test_fine_tuning_keeps_the_tokenizer_and_refuses_another(tiny, model):
    tokenizer = CharacterTokenizer(tuple(map(chr, range(128))))
    base = {"train.init_from": model(tokenizer, 128)}
    assert material(tiny(base)).tokenizer == tokenizer
    with pytest.raises(RequestError, match=r"data\.tokenizer has 28 ids, and id 0 means ' '.* meant '\\x00'"):
        material(tiny(base | {"data.tokenizer": "characters"}))


def test_fine_tuning_a_model_without_a_tokenizer_needs_its_name(tiny, model, table_of):
    base = {"train.init_from": model(None, 256)}
    with pytest.raises(RequestError, match=r"base holds no tokenizer; name the one it was trained with in data\."):
        material(tiny(base))
    assert material(tiny(base | {"data.tokenizer": "bytes"})).tokenizer == ByteTokenizer()
    with pytest.raises(RequestError, match=r"base: the tokenizer has 259 ids, the model only 256"):
        material(tiny(base | {"data.tokenizer": table_of(259)}))


def test_fine_tuning_keeps_the_number_of_ids_of_a_padded_vocabulary_and_so_does_its_continuation(
    tiny, model, text_file
):
    tokenizer = CharacterTokenizer.train(text_file.read_text())
    first = material(tiny({"train.init_from": model(tokenizer, 32)}))
    assert (first.config.model.vocab_size, first.tokenizer.vocab_size) == (32, 28)
    assert material(tiny(), manifest_of(first)).config.model.vocab_size == 32


def test_the_manifest_carries_a_large_tokenizer_last(begun, tmp_path):
    begun.write(tmp_path)
    lines = (tmp_path / "manifest.json").read_text().splitlines()
    names = [line.split('"')[1] for line in lines if line.startswith('  "')]
    assert names[-1] == "tokenizer"
