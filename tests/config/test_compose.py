"""Settings are laid over each other, remember where they came from, and survive a round trip."""

import dataclasses
import json
from typing import get_args

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from jaxgpt.config import (
    DataConfig,
    ModelConfig,
    RequestError,
    RunConfig,
    compose,
    flatten,
    from_nested,
    load_preset,
    read_toml,
)
from jaxgpt.config.compose import setting_names
from jaxgpt.config.model import MEANS_SOMETHING_WITH
from jaxgpt.config.section import is_list, parse_words


def test_later_layers_win_and_each_setting_remembers_its_origin():
    config, origins = compose(
        [
            ("preset small", {"model.width": 64, "train.steps": 10}),
            ("run.toml", {"model.width": 32}),
            ("command line", {"train.seed": 7}),
        ]
    )
    assert (config.model.width, config.train.steps, config.train.seed) == (32, 10, 7)
    assert origins == {"model.width": "run.toml", "train.steps": "preset small", "train.seed": "command line"}


def test_a_setting_that_equals_its_default_has_no_origin():
    default = RunConfig().train.steps
    _, origins = compose([("a file", {"train.steps": 5}), ("command line", {"train.steps": default})])
    assert origins == {}


def test_without_settings_the_defaults_remain():
    assert compose([]) == (RunConfig(), {})


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (
            [("command line", {"model.heds": 4})],
            "command line: unknown setting 'model.heds'; did you mean 'model.heads'?",
        ),
        ([("command line", {"width": 4})], "command line: unknown setting 'width'"),
        ([("run.toml", {"model.width": "4"})], "run.toml: model.width: expected a whole number, got '4'"),
        ([("a", {"model.width": 130}), ("b", {"model.heads": 4})], "a, b: model.width 130 is not divisible"),
        ([("a", {"model.width": 130}), ("b", {"train.steps": 4})], "a: model.width 130 is not divisible"),
        ([("b", {"mesh.data": 5})], "b: mesh.data 5 does not divide"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_origin(layers, words):
    with pytest.raises(RequestError) as caught:
        compose(layers)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[model]\nheds = 4", "unknown setting 'model.heds'; did you mean 'model.heads'?"),
        (b"[modle]\nheads = 4", "unknown section 'modle'; did you mean 'model'?"),
        (b"width = 4", "'width' stands outside a section; write it below one, as [model]"),
        (b"model = 4", "'model' is a section; write [model] and its fields below it"),
        (b"[model]\n'a.b' = 4", "unknown setting 'model.a.b'"),
        (b"[model\nheads = 4", "is not a TOML file: "),
        (b"[data]\npath = '\xff'", "is not a TOML file: 'utf-8' codec"),
        (b"[model]\nwidth = " + b"9" * 5000, "is not a TOML file: "),
    ],
)
def test_a_wrong_config_file_is_refused_by_name(tmp_path, content, words):
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with pytest.raises(RequestError) as caught:
        read_toml(path)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


def test_a_missing_config_file_or_a_folder_is_refused(tmp_path):
    with pytest.raises(RequestError, match=r"cannot read the config file .*none.toml: No such file"):
        read_toml(tmp_path / "none.toml")
    with pytest.raises(RequestError, match="cannot read the config file"):
        read_toml(tmp_path)


def test_a_config_file_gives_flat_settings(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('[model]\nwidth = 8\ngelu = "tanh"\n[train]\nsteps = 3\n', encoding="utf-8")
    assert read_toml(path) == {"model.width": 8, "model.gelu": "tanh", "train.steps": 3}


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_a_non_finite_number_in_a_config_file_is_refused(tmp_path, value):
    path = tmp_path / "run.toml"
    path.write_text(f"[optimizer]\nlearning_rate = {value}\n", encoding="utf-8")
    with pytest.raises(RequestError, match=f"optimizer.learning_rate: expected a finite number, got {value}"):
        compose([(str(path), read_toml(path))])


def number(cls, name):
    """A strategy for one numeric field, from its declared bounds."""
    bounds = cls.__dataclass_fields__[name].metadata
    low = bounds["at_least"] if bounds["at_least"] is not None else bounds["above"]
    high = bounds["at_most"] if bounds["at_most"] is not None else bounds["below"]
    if int in (cls.hint(name), *getattr(cls.hint(name), "__args__", ())):
        return st.integers(low, 10**6 if high is None else high)
    return st.floats(
        low,
        10.0 if high is None else high,
        exclude_min=bounds["above"] is not None,
        exclude_max=bounds["below"] is not None,
    ).filter(lambda drawn: drawn == 0 or abs(drawn) >= 1.2e-38)  # float32 holds no smaller ones


def value(cls, name):
    """A strategy for any field, from its type."""
    hint = cls.hint(name)
    parts = get_args(hint) or (hint,)
    choices = [choice for part in (hint, *parts) for choice in get_args(part) if isinstance(choice, str)]
    optional = st.none() if type(None) in parts else st.nothing()
    if is_list(hint):
        item = st.text(max_size=20) if str in parts else number(cls, name)
        return optional | st.lists(item, min_size=1, max_size=3)
    if choices:
        return optional | st.sampled_from(choices)
    if bool in parts:
        return st.booleans()
    return optional | (st.text(max_size=20) if str in parts else number(cls, name))


def make_model_agree(model, draw):
    """Let heads, widths and rotations fit each other, and leave alone what would mean nothing."""
    model["kv_heads"] = draw(st.integers(1, 8))
    model["heads"] = model["kv_heads"] * draw(st.integers(1, 8))
    model["head_size"] = 2 * draw(st.integers(1, 32))
    if draw(st.booleans()):
        model["width"], model["head_size"] = 2 * model["heads"] * draw(st.integers(1, 64)), None
    model["rope_factor"] = draw(st.floats(1.5, 100))
    model["rope_original_context"] = draw(st.integers(1, 10_000))
    model["rope_high_rotations"] = model["rope_low_rotations"] + draw(st.integers(1, 10))
    for field in dataclasses.fields(ModelConfig):
        if field.name in MEANS_SOMETHING_WITH:
            owner, values = MEANS_SOMETHING_WITH[field.name]
            if model[owner] not in values:
                model[field.name] = field.default


def make_data_agree(data, family):
    """Leave alone what would mean nothing: for the family, for one file, and beside a file for validation."""
    if family != "encoder":
        data["mask_rate"] = DataConfig().mask_rate
    if family != "decoder":
        data["pack_documents"] = False
    if data["validation_path"] is not None:
        data["validation_fraction"] = DataConfig().validation_fraction
    if data["weights"] is not None:
        data["path"] = [f"{i}.txt" for i in range(len(data["weights"]))]
        data["weights"] = None if len(data["path"]) == 1 else data["weights"]


def make_optimizer_agree(optimizer):
    """Keep to what float32 can hold, and to a decay that shrinks the weights."""
    for name in ("learning_rate", "final_learning_rate", "epsilon", "weight_decay", "clip_norm"):
        if optimizer[name]:
            optimizer[name] = max(optimizer[name], 1e-30)
    for name in ("beta1", "beta2"):
        optimizer[name] = min(optimizer[name], 0.9999999)
    optimizer["final_learning_rate"] = min(optimizer["final_learning_rate"], optimizer["learning_rate"])
    if optimizer["final_learning_rate"] * optimizer["weight_decay"] >= 2:
        optimizer["weight_decay"] = 1.0 / optimizer["final_learning_rate"]


@st.composite
def run_configs(draw):
    """A valid run: every field free, then the few that depend on each other made to agree."""
    nested = {
        section: {name: draw(value(cls, name)) for name in cls.field_names()}
        for section, cls in RunConfig.sections().items()
    }
    model, train, optimizer = nested["model"], nested["train"], nested["optimizer"]
    make_model_agree(model, draw)
    make_data_agree(nested["data"], model["family"])
    share = nested["mesh"]["data"] or 1
    rows = draw(st.integers(1, 8))
    train["accumulate"] = min(train["accumulate"], (2**31 - 1) // (share * rows))  # devices count in int32
    train["batch_size"] = train["accumulate"] * share * rows
    make_optimizer_agree(optimizer)
    train["wandb_project"] = train["wandb_project"] or None
    if train["sample_tokens"] == 0:
        train["sample_every"] = None
    if train["stop_after"] is not None:
        train["stop_after"] = min(train["stop_after"], train["steps"])
    return from_nested(nested, "drawn")


@settings(max_examples=30, deadline=None)
@given(config=run_configs())
def test_a_config_survives_a_round_trip_through_json(config):
    nested = json.loads(json.dumps(dataclasses.asdict(config)))
    again = from_nested(nested, "the manifest")
    assert again == config
    assert hash(again) == hash(config)
    assert tuple(flatten(config)) == setting_names()


@settings(max_examples=30, deadline=None)
@given(config=run_configs())
def test_what_differs_from_the_defaults_is_exactly_what_compose_reports(config):
    again, origins = compose([("drawn", flatten(config))])
    assert again == config
    defaults = flatten(RunConfig())
    assert set(origins) == {name for name, value in flatten(config).items() if value != defaults[name]}


@settings(max_examples=30, deadline=None)
@given(config=run_configs())
def test_a_command_line_word_reads_back_as_the_value_it_shows(config):
    for section, cls in RunConfig.sections().items():
        for name in cls.field_names():
            shown = getattr(getattr(config, section), name)
            if isinstance(shown, tuple) and len(shown) > 1:
                assert parse_words([str(item) for item in shown], cls.hint(name)) == shown
            elif not isinstance(shown, str | tuple):
                assert parse_words([str(shown)], cls.hint(name)) == shown


def test_flattening_a_preset_and_rebuilding_it_changes_nothing():
    preset = load_preset("gpt2")
    assert from_nested(dataclasses.asdict(preset), "gpt2") == preset
