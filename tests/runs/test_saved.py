"""Saving and loading a model: the same bits, the same tokenizer, or a refusal that names the difference."""

from __future__ import annotations

import copy
import warnings

import jax
import numpy as np
import pytest

import jaxgpt
from jaxgpt.config import RequestError, RunConfig, WorkError
from jaxgpt.data.tokenizer import CharacterTokenizer
from jaxgpt.model.parameters import abstract_parameters
from jaxgpt.runs.checkpoints import CheckpointStore
from jaxgpt.runs.directory import RunDirectory
from jaxgpt.runs.manifest import Manifest
from jaxgpt.runs.saved import load_run, save


@pytest.fixture
def params(config):
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype("float32"), abstract_parameters(config))


def test_a_saved_model_loads_bitwise(tmp_path, config, params, tokenizer, same):
    save(tmp_path / "model", config, params, tokenizer)
    with warnings.catch_warnings(action="error"):
        loaded_config, loaded, loaded_tokenizer = jaxgpt.load(tmp_path / "model")
    assert same(loaded, params)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(loaded))
    assert (loaded_config, loaded_tokenizer) == (config, tokenizer)
    assert loaded_tokenizer.decode(tokenizer.encode("hello")) == "hello"


def test_a_model_may_have_no_tokenizer(tmp_path, config, params):
    save(str(tmp_path / "model"), config, params)
    assert jaxgpt.load(str(tmp_path / "model"))[2] is None


def test_load_run_gives_the_whole_config_and_the_newest_step(tmp_path, manifest, params, same):
    run = RunDirectory.create(tmp_path / "run", manifest)
    with CheckpointStore(run.checkpoints_path) as store:
        for step in (1, 2):
            moved = jax.tree.map(lambda x, by=step: x + by, params)
            store.save(step, {"params": moved, "optimizer": {"mu": params}})
    config, loaded, tokenizer, step = load_run(run.path, pytest.fail)
    assert (config, step, tokenizer.to_json()) == (manifest.config, 2, manifest.tokenizer)
    assert same(loaded, moved)


def test_a_checkpoint_of_a_run_is_chosen_by_name_or_step(tmp_path, manifest, params):
    run = RunDirectory.create(tmp_path / "run", manifest)
    with CheckpointStore(run.checkpoints_path) as store:
        for step, loss in [(1, 3.0), (2, 1.0), (3, 2.0)]:
            store.save(step, {"params": jax.tree.map(lambda x, by=step: x * 0 + by, params)}, loss=loss)
    for choice, step in [("last", 3), ("best", 2), (1, 1)]:
        _, loaded, _ = jaxgpt.load(run.path, checkpoint=choice)
        assert float(loaded["token_embedding"].max()) == step
    with pytest.raises(RequestError, match=r"there is no checkpoint 4 in .*; name one that it holds: 1, 2, 3"):
        jaxgpt.load(run.path, checkpoint=4)


def test_a_tree_of_another_architecture_is_refused(tmp_path, config, params):
    other = copy.deepcopy(params)
    other["surplus"] = other.pop("token_embedding")
    other["blocks_0"]["ln1"]["scale"] = other["blocks_0"]["ln1"]["scale"][:-1]
    with pytest.raises(RequestError) as refusal:
        save(tmp_path / "model", config, other)
    assert "blocks_0/ln1/scale is float32[7], expected float32[8]" in str(refusal.value)
    assert "missing: token_embedding" in str(refusal.value)
    assert "surplus: surplus" in str(refusal.value)
    assert not (tmp_path / "model").exists()


def test_a_tree_of_another_dtype_is_refused(tmp_path, config, params):
    halved = jax.tree.map(lambda x: x.astype("bfloat16"), params)
    with pytest.raises(RequestError, match=r"is bfloat16\[8\], expected float32\[8\]"):
        save(tmp_path / "model", config, halved)


def test_a_tokenizer_with_more_ids_than_the_model_is_refused(tmp_path, config, params):
    with pytest.raises(RequestError, match="the tokenizer has 9 ids, the model only 8"):
        save(tmp_path / "model", config, params, CharacterTokenizer.train("abcdefghi"))
    assert not (tmp_path / "model").exists()


def test_nothing_is_saved_over_something(tmp_path, config, params):
    save(tmp_path / "model", config, params)
    with pytest.raises(RequestError, match="holds something else"):
        save(tmp_path / "model", config, params)


def test_loading_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(RequestError, match="does not exist"):
        jaxgpt.load(tmp_path / "none")


def test_a_run_without_checkpoints_says_so(tmp_path, config):
    RunDirectory.create(tmp_path / "run", Manifest(config=RunConfig(model=config)))
    with pytest.raises(WorkError, match="nothing was saved there yet"):
        jaxgpt.load(tmp_path / "run")
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_damaged_model_warns_and_fails(tmp_path, config, params):
    save(tmp_path / "model", config, params)
    record = tmp_path / "model" / "checkpoints" / "0" / "record" / "metadata"
    record.write_text(record.read_text().replace("float32", "float64", 1))
    with pytest.raises(WorkError, match="checkpoint 0 is damaged: its record does not match"):
        jaxgpt.load(tmp_path / "model")
    assert record.exists()
