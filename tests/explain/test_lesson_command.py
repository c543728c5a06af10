"""`jaxgpt lesson` prints the lesson, and fails when a number of it is not what it should be."""

import json
import subprocess
import sys

import pytest
from program import nobody_reading

from jaxgpt.cli import main as program
from jaxgpt.cli.lesson import main
from jaxgpt.config import RequestError, WorkError
from jaxgpt.explain import lesson as lesson_module
from jaxgpt.explain.as_json import lesson_data
from jaxgpt.explain.lesson import run_lesson
from jaxgpt.explain.lesson_weights import lesson_parameters


def test_the_command_prints_the_page_and_succeeds(capsys):
    assert program(["lesson"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-2:] == [
        "211 printed numbers: 205 agree, 6 misprints of the course, 0 differ.",
        "48 statements: 48 hold.",
    ]
    assert printed.err == ""


def test_a_reader_that_leaves_early_is_no_failure(monkeypatch, capsys, lesson):
    monkeypatch.setattr(lesson_module, "run_lesson", lambda *_: lesson)
    with nobody_reading(monkeypatch):
        assert program(["lesson"]) == 0
    assert capsys.readouterr().err == ""


def test_json_is_the_same_lesson_and_nothing_else(capsys, lesson):
    assert main(["--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data == json.loads(json.dumps(lesson_data(lesson)))
    assert data["summary"]["misprints"] == len(data["misprints"]) == 6
    logits = next(step for step in data["parts"][0]["steps"] if step["trace_name"] == "logits")
    first = logits["rows"][1]["numbers"][0]
    assert (first["printed"], first["verdict"]) == ("1.1128", "agrees")
    assert first["computed"] == pytest.approx(1.1128051, abs=1e-5)


@pytest.mark.parametrize("part", ["example", "exercises", "bridge"])
def test_a_part_can_be_asked_for_alone(part, capsys):
    assert main(["--json", "--part", part]) == 0
    assert [entry["name"] for entry in json.loads(capsys.readouterr().out)["parts"]] == [part]


def test_a_wrong_number_fails_after_it_was_printed(monkeypatch, capsys):
    params = lesson_parameters()
    wrong = params | {"final_norm": params["final_norm"] | {"bias": params["final_norm"]["bias"] + 0.001}}
    monkeypatch.setattr(lesson_module, "lesson_parameters", lambda: wrong)
    with pytest.raises(
        WorkError, match=r"Final layer norm, A like@1, feature 0: computed 1.31380\d, expected the pri"
    ):
        main(["--part", "example"])
    assert "!  1.3128" in capsys.readouterr().out


def test_an_unknown_option_or_part_is_refused():
    with pytest.raises(RequestError, match="did you mean '--json'"):
        main(["--jsn"])
    with pytest.raises(RequestError, match="bridge"):
        main(["--part", "brige"])
    with pytest.raises(RequestError, match="did you mean 'bridge'"):
        run_lesson("brige")


def test_help_needs_no_jax():
    code = (
        "import sys, jaxgpt.cli.lesson as c\n"
        "try:\n    c.main(['--help'])\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "assert 'jax' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--part" in done.stdout
