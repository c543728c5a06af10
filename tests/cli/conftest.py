"""Run command lines: in this process for speed, with what they may leave behind watched."""

import jax
import pytest
from small_models import random_parameters

import jaxgpt
from jaxgpt.cli import main
from jaxgpt.data.tokenizer import CharacterTokenizer

TEXT = "hello world\n"


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Return a function that runs `jaxgpt ARGUMENTS` in an empty folder and returns (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "1000")  # so that no help text is wrapped
    # The devices of this process are long arranged; this keeps a command from trying.
    monkeypatch.setenv("XLA_FLAGS", f"--xla_force_host_platform_device_count={len(jax.devices())}")

    def run(*arguments):
        capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:  # argparse ends --help this way
            code = end.code
        return code, *capsys.readouterr()

    return run


def contents(folder):
    """Return {path: bytes, or None of a folder} of everything under a folder."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def refusal(command, tmp_path):
    """Return a function that runs a wrong command line and returns its message.

    It asserts what holds for every one: exit code 2, one line on stderr, nothing on stdout, nothing left behind.
    """

    def run(*arguments):
        before = contents(tmp_path)
        code, out, err = command(*arguments)
        assert (code, out) == (2, "")
        assert err.startswith("jaxgpt: ")
        assert err.count("\n") == 1
        assert err.endswith("\n")
        assert contents(tmp_path) == before
        return err.removeprefix("jaxgpt: ").removesuffix("\n")

    return run


@pytest.fixture(scope="session")
def tokenizer():
    return CharacterTokenizer.train(TEXT)


@pytest.fixture(scope="session")
def model(tokenizer):
    """(config, params) of a model of 16 positions that has learned nothing."""
    config = jaxgpt.ModelConfig(vocab_size=tokenizer.vocab_size, context_length=16, width=8, layers=1, heads=2)
    return config, random_parameters(config)


@pytest.fixture(scope="session")
def saved(tmp_path_factory, model, tokenizer):
    """The path of that model, saved with its tokenizer."""
    path = tmp_path_factory.mktemp("saved") / "tiny"
    jaxgpt.save(path, *model, tokenizer)
    return path
