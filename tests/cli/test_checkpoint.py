"""`--checkpoint`: every command that opens a model takes it, and says what it expects."""

import pytest

from jaxgpt.config import RequestError
from jaxgpt.interop import opening

COMMANDS = [("generate", "."), ("eval", "."), ("export", ".", "out"), ("bench", "decode", ".")]


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
@pytest.mark.parametrize(
    ("given", "asked"), [((), "last"), (("--checkpoint", "best"), "best"), (("--checkpoint=7",), 7)]
)
def test_a_command_opens_the_checkpoint_that_it_is_told(refusal, monkeypatch, arguments, given, asked):
    def open_model(path, warn, *, checkpoint):
        raise RequestError(f"asked for {checkpoint!r}")

    monkeypatch.setattr(opening, "open_model", open_model)
    assert refusal(*arguments, *given) == f"asked for {asked!r}"


def test_what_is_no_checkpoint_is_refused(refusal):
    message = refusal("eval", ".", "--checkpoint", "bets")
    assert message.startswith(
        "argument --checkpoint: expected last, best or a step, got 'bets'; did you mean 'best'?"
    )
    assert "-1" in refusal("eval", ".", "--checkpoint=-1")


def test_a_preset_and_a_model_of_others_have_no_checkpoints(refusal, tmp_path):
    (tmp_path / "model.bin").touch()
    message = refusal("export", "model.bin", "out", "--checkpoint", "best")
    assert message == "model.bin is no run directory and has no checkpoint best to choose; leave it out"
    message = refusal("bench", "decode", "char-cpu", "--checkpoint", "best")
    assert message == "--checkpoint is for runs; char-cpu is a preset, leave it out"
