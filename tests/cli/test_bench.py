"""`jaxgpt bench attention`: a table, a record, and refusals before the work."""

import json

import pytest

SMALL = ("bench", "attention", "--shapes", "1x8x2x4", "--seconds", "0.001", "--pass", "forward", "--devices", "one")


def test_a_small_run_prints_a_table_and_writes_its_record(command, tmp_path):
    code, out, err = command(*SMALL, "--contestants", "eager", "dense", "--record", "times.json")
    assert (code, err) == (0, "")
    assert "attention, B1 T8 H2 D4, float32, causal, forward" in out
    assert "where compilation does not pay:" in out
    record = json.loads((tmp_path / "times.json").read_text())
    assert record["command"].startswith("jaxgpt bench attention --shapes 1x8x2x4 ")
    assert [row["contestant"] for row in record["rows"]] == ["eager", "dense"]
    assert all(rate > 0 for rate in record["machine"].values())


def test_a_wrong_result_ends_with_1_after_the_printing(command, monkeypatch):
    monkeypatch.setattr("jaxgpt.benchmark.verify.tolerance", lambda workload, largest: 0.0)
    code, out, err = command(*SMALL, "--contestants", "dense", "--json")
    assert code == 1
    assert json.loads(out)["rows"][0]["wrong"]
    assert err.startswith(
        "jaxgpt: 1 wrong results, not timed: dense (1 device) at B1 T8 H2 D4, forward: wrong result"
    )


def test_a_sweep_doubles_the_length(command):
    code, out, _ = command(*SMALL, "--contestants", "dense", "--sweep", "4:8", "--json")
    assert code == 0
    assert [row["workload"]["T"] for row in json.loads(out)["rows"]] == [4, 8]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["attenton"], "unknown bench command 'attenton'; did you mean 'attention'?"),
        (["attention", "--seconds", "0"], "--seconds: expected a finite number above 0, got 0"),
        (["attention", "--seconds", "inf"], "--seconds: expected a finite number above 0, got inf"),
        (["attention", "--seconds", "nan"], "--seconds: expected a finite number above 0, got nan"),
        (["attention", "--shapes", "1x2"], "shape '1x2': expected BxTxHxD"),
        (["attention", "--sweep", "9:1"], "sweep '9:1'"),
        (["attention", "--contestants", "dens"], "unknown contestant 'dens'; did you mean 'dense'?"),
        (["attention", "--record", "nowhere/times.json"], "--record nowhere/times.json: expected the name of a file"),
        (["attention", "--devices", "on"], "argument --devices: unknown choice 'on'; did you mean 'one'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_request_is_refused(refusal, arguments, message):
    assert refusal("bench", *arguments).startswith(message)
