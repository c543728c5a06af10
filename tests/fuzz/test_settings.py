"""Settings as a TOML file and as options: the values that were written, or one message.

Accepted silently would be: a setting that is dropped, rounded, taken for another or left to a default, a file or an
option that is not a setting, and a number that the devices (int32, float32) cannot hold.
"""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib

import hypothesis.strategies as st
import numpy as np
import pytest
from fuzzing import CHANGES, fuzz, fuzzed, one_message, spoilt

from jaxgpt.cli.train import _parse, _requested
from jaxgpt.config import RequestError, RunConfig, compose, flatten, from_nested, preset_settings, read_toml
from jaxgpt.config.compose import setting_names

DEFAULTS = flatten(RunConfig())
WORDS = [
    "none",
    "true",
    "auto",
    "dense",
    "rope",
    "tanh",
    "swiglu",
    "encoder",
    "bytes",
    "",
    "-1",
    "1e3",
    "1_0",
    "0x10",
]
NUMBERS = (
    st.integers(1, 64)
    | st.integers(-(2**70), 2**70)
    | st.floats(0, 1)
    | st.floats()
    | st.sampled_from([0, 1.0, 2, 8])
)
NAMES = st.sampled_from(setting_names()) | st.sampled_from(
    ["model.heds", "train", "steps", "data.path.x", "model.", "a.b"]
)
VALUES = NUMBERS | st.booleans() | st.sampled_from(WORDS) | st.text(max_size=8) | st.lists(st.integers(), max_size=2)


def as_toml(settings):
    """Settings as TOML, a section for each; JSON's strings, numbers and lists are TOML's."""
    sections = {}
    for name, value in settings.items():
        section, _, field = name.partition(".")
        sections.setdefault(section, {})[field] = value
    lines = []
    for section, fields in sections.items():
        lines.append(f"[{section}]")
        lines += [f"{json.dumps(field)} = {literal(value)}" for field, value in fields.items()]
    return "\n".join(lines)


def literal(value):
    if isinstance(value, float):
        return repr(value)  # nan and inf are words of TOML too
    return json.dumps(value, ensure_ascii=True)


def check_usable(config):
    """No number is beyond what the devices compute with, and the config survives its manifest."""
    for name, value in flatten(config).items():
        if type(value) is int:
            assert abs(value) < (2**32 if name == "train.seed" else 2**31), name
        if type(value) is float:
            assert math.isfinite(np.float32(value)), name
            assert value == 0 or np.float32(value) != 0, name
    assert from_nested(json.loads(json.dumps(dataclasses.asdict(config))), "the manifest") == config


def same(got, written):
    """Equal, and not a truth value for a number; a whole number may stand for its float."""
    return got == written and isinstance(got, bool) == isinstance(written, bool)


@fuzzed
def test_a_toml_file_gives_its_settings_or_one_message(tmp_path, examples):
    path = tmp_path / "run.toml"

    def check(settings, changes):
        path.write_bytes(spoilt(as_toml(settings).encode("utf-8", "surrogatepass"), changes))
        try:
            config, _ = compose([("file", read_toml(path))])
        except RequestError as error:
            one_message(error)
            return
        written = tomllib.loads(path.read_text(encoding="utf-8"))
        named = {f"{section}.{field}": value for section, each in written.items() for field, value in each.items()}
        for name, value in flatten(config).items():
            assert same(value, named.pop(name, DEFAULTS[name])), name
        assert not named
        check_usable(config)

    fuzz(examples, check, st.dictionaries(NAMES, VALUES, max_size=4), st.just([]) | CHANGES)


def expected(text, default):
    """What an option's text says, read without the program: by what the field's default is, or as text."""
    for read in (int, float):
        try:
            return {"none": None, "true": True, "false": False}.get(text.lower(), read(text))
        except ValueError:
            continue
    return {"none": None, "true": True, "false": False}.get(text.lower(), text)


@fuzzed
def test_options_give_their_settings_or_one_message(tmp_path, monkeypatch, examples):
    monkeypatch.chdir(tmp_path)
    quickstart = DEFAULTS | preset_settings("quickstart")

    def check(options):
        words = [
            word
            for name, text, joined in options
            for word in ([f"--{name}={text}"] if joined else [f"--{name}", text])
        ]
        try:
            config, _ = _requested(_parse(words), None)
        except RequestError as error:
            one_message(error)
            return
        written = {name: text for name, text, _ in options}
        for name, value in flatten(config).items():
            texts = tuple(text for option, text, _ in options if option == name)
            if name not in written:
                assert value == quickstart[name], name
            elif isinstance(value, tuple):
                assert value == texts or value == tuple(float(n) for text in texts for n in text.split(",")), name
            elif value != written[name]:  # not text
                assert same(value, expected(written[name], DEFAULTS[name])), name
        check_usable(config)

    texts = st.sampled_from(WORDS) | NUMBERS.map(str) | st.text(max_size=6)
    names = NAMES | st.just("preset")
    fuzz(examples, check, st.lists(st.tuples(names, texts, st.booleans()), max_size=3))


def test_the_fuzz_tests_would_notice_a_setting_that_is_dropped():
    assert not same(True, 1)
    assert not same(12, 13)
    with pytest.raises(AssertionError):
        one_message(ValueError("no"))
