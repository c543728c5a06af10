"""`jaxgpt bench decode`: a table, a record, and refusals before the work."""

import json

import jax
import pytest

from jaxgpt.benchmark.decode import run
from jaxgpt.benchmark.decode.contestants import contestants
from jaxgpt.model.serving import prepare

SIZES = ("--batch", "2", "--prompt-length", "3", "--new-tokens", "5", "--rounds", "2")


@pytest.fixture
def only_cached(monkeypatch):
    """Leave out what would be compiled besides."""
    monkeypatch.setattr(run, "contestants", lambda *model, peers: contestants(*model, peers=peers)[:1])


def check_group(group, names):
    """Everyone named was timed, and held against reading alone."""
    assert [row["contestant"] for row in group["rows"]] == names
    for row in group["rows"]:
        assert row["left_out"] is None
        assert 0 < row["step"]["p10"] <= row["step"]["median"]
        assert row["first"]["median"] > 0
        assert row["of_bound"] == pytest.approx(group["reading"]["median"] / row["step"]["median"])


@pytest.mark.usefixtures("only_cached")
def test_a_small_run_prints_json_and_writes_the_same_as_its_record(command, saved, tmp_path):
    code, out, err = command("bench", "decode", saved, *SIZES, "--json", "--record", "times.json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert json.loads((tmp_path / "times.json").read_text()) == record
    assert record["command"] == f"jaxgpt bench decode {saved} {' '.join(SIZES)} --json --record times.json"
    assert record["model"]["source"].startswith("run directory, step 0")
    check_group(*record["groups"], ["cached"])


@pytest.mark.usefixtures("only_cached")
def test_a_wrong_result_ends_with_1_after_the_printing(command, saved, monkeypatch):
    def damaged(config, params):
        return prepare(config, jax.tree.map(lambda x: 1.1 * x, params))

    monkeypatch.setattr(run, "prepare", damaged)
    code, out, err = command("bench", "decode", saved, *SIZES)
    assert code == 1
    assert "not timed: cached; wrong result: " in out
    assert err.startswith("jaxgpt: 1 wrong results, not timed: cached at B2, 3 + 5 tokens: wrong result: ")


@pytest.mark.ci  # a dozen programs with the sampler in them to compile
def test_every_contestant_is_right_and_timed_for_each_batch(command):
    code, out, err = command("bench", "decode", "minigpt", "--batch", "1", "2", *SIZES[2:], "--json")
    assert (code, err) == (0, "")
    groups = json.loads(out)["groups"]
    assert [group["workload"]["B"] for group in groups] == [1, 2]
    for group in groups:
        check_group(group, ["cached", "cached, as stored", "uncached"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gpt3"], "unknown model 'gpt3'; did you mean 'gpt2'?: neither a preset nor a path that is there"),
        (["minigpt", "--rounds", "0"], "--rounds: expected at least 1, got 0"),
        (["minigpt", "--batch", "0"], "--batch: expected at least 1, got 0"),
        (
            ["minigpt", "--new-tokens", "99"],
            "--prompt-length 16 and --new-tokens 99 are 115 tokens, above the",
        ),
        (["quickstart-encoder"], "expected a decoder, got a model of family encoder; name another model"),
        (["minigpt", "--record", "nowhere/times.json"], "--record nowhere/times.json: expected the name of a file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_request_is_refused(refusal, arguments, message):
    assert refusal("bench", "decode", *arguments).startswith(message)


def test_only_a_preset_is_given_a_vocabulary(refusal, saved):
    message = refusal("bench", "decode", saved, "--vocab-size", "7")
    assert message == f"--vocab-size is for presets; {saved} says its own, leave it out"
