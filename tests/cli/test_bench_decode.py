"""`jaxgpt bench decode`: a table, a record, and refusals before the work."""

import json

import jax
import pytest

from jaxgpt.benchmark.decode import run
from jaxgpt.model.serving import prepare

SIZES = ("--batch", "2", "--prompt-length", "3", "--new-tokens", "5", "--rounds", "2")


def test_a_small_run_times_every_contestant_and_writes_its_record(command, saved, tmp_path):
    code, out, err = command("bench", "decode", saved, *SIZES, "--record", "times.json")
    assert (code, err) == (0, "")
    assert "B2, 3 + 5 tokens: a step reads 0.0 MB of parameters" in out
    assert out.splitlines()[-2].startswith("the cache ")
    record = json.loads((tmp_path / "times.json").read_text())
    assert record["command"].startswith("jaxgpt bench decode ")
    assert record["model"]["source"].startswith("run directory, step 0")
    (group,) = record["groups"]
    assert [row["contestant"] for row in group["rows"]] == ["cached", "cached, as stored", "uncached"]
    for row in group["rows"]:
        assert row["left_out"] is None
        assert 0 < row["step"]["p10"] <= row["step"]["median"]
        assert row["first"]["median"] > 0
        assert row["of_bound"] == pytest.approx(group["reading"]["median"] / row["step"]["median"])


def test_a_wrong_result_ends_with_1_after_the_printing(command, saved, monkeypatch):
    def damaged(config, params):
        return prepare(config, jax.tree.map(lambda x: 1.1 * x, params))

    monkeypatch.setattr(run, "prepare", damaged)
    code, out, err = command("bench", "decode", saved, *SIZES, "--json")
    assert code == 1
    rows = {row["contestant"]: row for row in json.loads(out)["groups"][0]["rows"]}
    assert [name for name, row in rows.items() if row["wrong"]] == ["cached", "uncached"]
    assert rows["cached"]["step"] is None
    assert rows["cached, as stored"]["step"]["median"] > 0
    assert err.startswith("jaxgpt: 2 wrong results, not timed: cached at B2, 3 + 5 tokens: wrong result: ")


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
