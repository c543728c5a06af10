"""What `--help` says, and how soon."""

import dataclasses
import os
import re
import statistics
import subprocess
import sys
import time

import pytest
from program import PROGRAM

from jaxgpt.cli import COMMANDS
from jaxgpt.cli.bench import COMMANDS as BENCH_COMMANDS
from jaxgpt.cli.data import COMMANDS as DATA_COMMANDS
from jaxgpt.config import RunConfig, flatten, load_preset, preset_names

WITHOUT_JAX = """
import sys
from jaxgpt.cli import main
try:
    code = main()
except SystemExit as end:
    code = end.code
libraries = {"jax", "numpy", "flax", "optax", "orbax", "grain", "rich", "tokenizers", "tiktoken"}
heavy = sorted(libraries & set(sys.modules))
sys.exit(f"imported {heavy}" if heavy else code)
"""


def described_options(text):
    """Return {option: the rest of its line} of a help text that is not wrapped."""
    entries = re.findall(r"^  (?:-h, )?(--[\w.-]+)(.*(?:\n {10,}.*)*)", text, flags=re.MULTILINE)
    return {name: " ".join(words.split()) for name, words in entries}


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]], ids=str)
def test_usage_names_every_command(command, arguments):
    code, out, err = command(*arguments)
    assert (code, err) == (0, "")
    for name, summary in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(summary)}$", out, flags=re.MULTILINE)


@pytest.mark.parametrize(
    "name", [*COMMANDS, *(f"data {name}" for name in DATA_COMMANDS), *(f"bench {name}" for name in BENCH_COMMANDS)]
)
def test_help_gives_the_meaning_and_the_default_of_every_option(command, name):
    code, out, err = command(*name.split(), "--help")
    assert (code, err) == (0, "")
    options = described_options(out)
    mentioned = set(re.findall(r"--[a-z][\w.-]*", out.split("\n\n")[0])) | {"--help"}  # the usage line
    assert set(options) == mentioned
    for option in mentioned - {"--help"}:
        assert re.search(r"\w{3,}.*(default: \S|\(required\))", options[option]), (
            f"{option} has no default in: {options[option]}"
        )


def test_help_of_train_lists_every_setting_with_its_meaning_and_the_quickstart_default(command):
    options = described_options(command("train", "--help")[1])
    defaults = flatten(load_preset("quickstart"))
    for section, cls in RunConfig.sections().items():
        for field in dataclasses.fields(cls):
            words = options[f"--{section}.{field.name}"]
            value = defaults[f"{section}.{field.name}"]
            shown = str(value).lower() if value is None or isinstance(value, bool) else value
            assert field.metadata["doc"] in words
            assert words.endswith(f"default: {shown})")


def test_help_of_train_shows_the_defaults_of_the_named_preset_and_file(command, tmp_path):
    (tmp_path / "mine.toml").write_text("[train]\nsteps = 77\n")
    options = described_options(command("train", "--preset", "gpt2", "--config", "mine.toml", "--help")[1])
    assert "default: 768)" in options["--model.width"]
    assert "default: 77)" in options["--train.steps"]


@pytest.mark.parametrize("name", ["train", "params"])
def test_help_names_every_preset(command, name):
    out = command(name, "--help")[1]
    assert all(preset in out for preset in preset_names())


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["train", "--help"], 0),
        (["generate", "--help"], 0),
        (["eval", "--help"], 0),
        (["eval", "run", "--validation-fraction", "0.1"], 2),
        (["train", "--train.stpes", "3"], 2),
        (["train", "--train.steps", "many"], 2),
        (["plot", "--help"], 0),
        (["params", "gpt2"], 0),
        (["inspect", "--help"], 0),
        (["inspect", "run", "--verfy"], 2),
        (["data", "--help"], 0),
        (["bench", "--help"], 0),
        (["bench", "attention", "--help"], 0),
        (["bench", "attention", "--sede", "3"], 2),
        (["bench", "decode", "--help"], 0),
        (["bench", "decode", "gpt3"], 2),
        (["data", "tokenizer", "--help"], 0),
        (["data", "tokenizer", "--text", "a.txt", "--vocab-size", "many", "--out", "b.json"], 2),
        (["data", "prepare", "--help"], 0),
        (["data", "prepare", "a.txt", "--tokenizer", "bytes", "--out", "b.tokens", "--workers", "0"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_help_mistakes_and_counts_are_answered_without_jax(arguments, code):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JAX, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr


def seconds(*command):
    start = time.perf_counter()
    subprocess.run(command, capture_output=True, check=False)
    return time.perf_counter() - start


@pytest.mark.ci  # times are compared: nothing may run beside it
def test_help_and_an_option_error_are_answered_in_half_the_time_of_importing_jax():
    commands = ([sys.executable, "-c", "import jax"], [*PROGRAM, "--help"], [*PROGRAM, "train", "--train.stpes", "3"])
    rounds = [[seconds(*command) for command in commands] for _ in range(5)]
    importing, *answers = (statistics.median(times) for times in zip(*rounds, strict=True))
    for answer in answers:
        assert answer <= importing / 2
        assert answer < 1


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["train", "--help"], ["params", "gpt2"], ["params", "gpt2", "--json"]],
    ids=" ".join,
)
def test_a_reader_that_leaves_early_is_no_failure(arguments, buffered):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*PROGRAM, *arguments],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
        env=environment | ({} if buffered else {"PYTHONUNBUFFERED": "1"}),
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
