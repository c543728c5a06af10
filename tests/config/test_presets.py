"""The presets load, state their size, and hold the architectures that they are named after."""

import dataclasses
import re

import pytest

from jaxgpt import ModelConfig, count_parameters
from jaxgpt.config import DataConfig, RequestError, RunConfig, load_preset, preset_names, preset_settings
from jaxgpt.config.presets import preset_folder


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_loads_and_is_hashable(name):
    config = load_preset(name)
    assert hash(config) == hash(load_preset(name))
    assert config.model == ModelConfig.preset(name)
    assert preset_settings(name)


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_begins_with_its_result_and_its_command(name):
    first, second = (preset_folder() / f"{name}.toml").read_text(encoding="utf-8").splitlines()[:2]
    assert first.startswith("# ")
    assert second.startswith("# ")


@pytest.mark.parametrize("name", preset_names())
def test_a_parameter_count_in_a_presets_first_line_is_the_models_own(name):
    first = (preset_folder() / f"{name}.toml").read_text(encoding="utf-8").splitlines()[0]
    quoted = re.match(r"# ([\d,]+) parameters(?: with (\d+) characters)?", first)
    if quoted is None:
        pytest.skip("the preset states a result instead")
    config = ModelConfig.preset(name)
    if quoted[2]:
        config = config.replace(vocab_size=int(quoted[2]))
    assert count_parameters(config).total == int(quoted[1].replace(",", ""))


@pytest.mark.parametrize(
    ("name", "layers", "heads", "width"),
    [("gpt2", 12, 12, 768), ("gpt2-medium", 24, 16, 1024), ("gpt2-large", 36, 20, 1280), ("gpt2-xl", 48, 25, 1600)],
)
def test_gpt2_presets_have_the_published_sizes(name, layers, heads, width):
    config = ModelConfig.preset(name)
    assert (config.layers, config.heads, config.width) == (layers, heads, width)
    assert (config.vocab_size, config.context_length, config.gelu) == (50257, 1024, "tanh")
    assert config.head_width == 64
    assert config.tied_head
    assert load_preset(name).data.tokenizer == "gpt2"


def test_an_unknown_preset_is_refused_with_the_nearest_and_the_list():
    with pytest.raises(
        RequestError, match=r"unknown preset 'gpt2-larg'; did you mean 'gpt2-large'\? \(presets: .*minigpt"
    ):
        ModelConfig.preset("gpt2-larg")


def test_a_preset_takes_changes_and_refuses_unknown_ones():
    assert ModelConfig.preset("char-cpu", vocab_size=65).vocab_size == 65
    with pytest.raises(RequestError, match="model has no field 'vocabsize'; did you mean 'vocab_size'"):
        ModelConfig.preset("char-cpu", vocabsize=65)


def test_a_preset_is_a_whole_run_with_settings_laid_over_it():
    run = RunConfig.preset("char-cpu", {"data.path": "input.txt", "train.steps": 7})
    assert run == dataclasses.replace(
        load_preset("char-cpu"),
        data=DataConfig(path="input.txt"),
        train=load_preset("char-cpu").train.replace(steps=7),
    )
    assert RunConfig.preset("gpt2") == load_preset("gpt2")
    with pytest.raises(RequestError, match=r"RunConfig\.preset: unknown setting .train\.stpes.; did you mean"):
        RunConfig.preset("char-cpu", {"train.stpes": 7})


def test_derived_sizes_follow_the_fields():
    config = ModelConfig(width=12, heads=3)
    assert (config.head_width, config.hidden_width, config.has_dropout) == (4, 48, False)
    assert config.replace(ffn_width=5).hidden_width == 5
    for name in ("embedding_dropout", "attention_dropout", "residual_dropout"):
        assert config.replace(**{name: 0.1}).has_dropout
