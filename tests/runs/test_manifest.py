"""The manifest: what is written comes back, and what does not fit the weights is refused in one message."""

from __future__ import annotations

import dataclasses
import json
import os
from importlib.metadata import version

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgpt.config import ModelConfig, OptimizerConfig, RequestError, RunConfig, TrainConfig, WorkError
from jaxgpt.runs.manifest import Manifest
from jaxgpt.runs.versions import library_versions


@pytest.fixture
def edit(tmp_path, manifest):
    """Return a function that writes the manifest, changes its JSON with `change`, and reads it again."""

    def run(change):
        manifest.write(tmp_path)
        path = tmp_path / "manifest.json"
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))
        return Manifest.read(tmp_path)

    return run


def test_a_manifest_reads_back_equal(tmp_path, manifest):
    manifest.write(tmp_path)
    assert Manifest.read(tmp_path) == manifest
    assert os.listdir(tmp_path) == ["manifest.json"]


@settings(deadline=None, max_examples=30)
@given(st.floats(1e-6, 1.0), st.integers(0, 2**32 - 1), st.sampled_from([16, 64]), st.none() | st.integers(1, 99))
def test_every_config_survives_json(tmp_path_factory, rate, seed, width, ffn_width):
    config = RunConfig(
        model=ModelConfig(vocab_size=7, width=width, ffn_width=ffn_width),
        optimizer=OptimizerConfig(learning_rate=rate, final_learning_rate=rate),
        train=TrainConfig(seed=seed),
    )
    folder = tmp_path_factory.mktemp("run")
    Manifest(config=config).write(folder)
    assert Manifest.read(folder).config == config


def test_versions_are_those_of_the_installed_packages():
    versions = library_versions()
    assert versions["jax"] == version("jax")
    assert versions["orbax-checkpoint"] == version("orbax-checkpoint")
    assert set(versions) == {
        "jaxgpt", "python", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "numpy", "tokenizers",
        "tiktoken",
    }  # fmt: skip


def test_a_missing_manifest_is_named(tmp_path):
    with pytest.raises(RequestError, match=r"cannot read .*manifest\.json: No such file"):
        Manifest.read(tmp_path)


@pytest.mark.parametrize("length", [0, 1, 100, -3])
def test_a_truncated_manifest_is_refused(tmp_path, manifest, length):
    manifest.write(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(RequestError, match="is not whole JSON"):
        Manifest.read(tmp_path)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "manifest.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(RequestError, match="is not whole JSON"):
        Manifest.read(tmp_path)


def test_another_format_is_refused(edit):
    with pytest.raises(RequestError, match="format 3, got format 99; read it with the jaxgpt version"):
        edit(lambda document: document.update(format=99))


def test_json_of_another_kind_is_refused(tmp_path):
    (tmp_path / "manifest.json").write_text("[1]")
    with pytest.raises(RequestError, match="got format 'list'"):
        Manifest.read(tmp_path)


def test_an_unknown_config_field_is_refused_with_the_nearest(edit):
    with pytest.raises(RequestError, match=r"unknown setting 'train\.step'; did you mean 'train\.steps'"):
        edit(lambda document: document["config"]["train"].update(step=3))


@pytest.mark.parametrize(("name", "value"), [("tokenizer", "abc"), ("config", []), ("command", 3), ("data", None)])
def test_a_field_of_the_wrong_type_is_refused(edit, name, value):
    with pytest.raises(RequestError, match=f"'{name}' should be"):
        edit(lambda document: document.update({name: value}))


@pytest.mark.parametrize("change", [lambda d: d.pop("versions"), lambda d: d.update(extra=1)])
def test_missing_and_unknown_fields_are_refused(edit, change):
    with pytest.raises(RequestError, match=r"missing or unknown: (versions|extra)"):
        edit(change)


def test_an_edited_architecture_is_refused(edit):
    with pytest.raises(RequestError, match="edited after the weights were saved"):
        edit(lambda document: document["config"]["model"].update(norm_epsilon=1e-6))


def test_an_edited_tokenizer_is_refused(edit):
    with pytest.raises(RequestError, match="edited after the weights were saved"):
        edit(lambda document: document["tokenizer"]["characters"].reverse())


def test_a_changed_training_section_is_read_as_it_is(edit):
    assert edit(lambda document: document["config"]["train"].update(steps=9)).config.train.steps == 9


def test_a_model_may_have_more_ids_than_its_tokenizer_but_not_fewer(manifest):
    model = manifest.config.model
    padded = dataclasses.replace(manifest, config=RunConfig(model=model.replace(vocab_size=20)))
    assert padded.config.model.vocab_size == 20
    with pytest.raises(RequestError, match=r"the tokenizer has 8 ids, the model only 7; use the one that the model"):
        dataclasses.replace(manifest, config=RunConfig(model=model.replace(vocab_size=7)))


def test_a_model_without_a_vocabulary_size_is_refused():
    with pytest.raises(RequestError, match=r"set model\.vocab_size"):
        Manifest(config=RunConfig())


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failed_write_leaves_the_earlier_manifest(tmp_path, manifest, monkeypatch, failing):
    manifest.write(tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, full)
    with pytest.raises(WorkError, match=r"cannot write .*manifest\.json: No space left on device; free space"):
        dataclasses.replace(manifest, command="another").write(tmp_path)
    assert Manifest.read(tmp_path) == manifest
    assert os.listdir(tmp_path) == ["manifest.json"]
