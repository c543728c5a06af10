"""The scripts of bench/ start, and the command that one of them runs is one that `jaxgpt bench` takes."""

import re
import runpy
import shlex
import sys

import pytest
from program import ROOT

from jaxgpt.cli.bench_attention import _parse, _workloads

BENCH = ROOT / "bench"


@pytest.mark.parametrize("script", sorted(BENCH.glob("*.py")), ids=lambda path: path.name)
def test_every_script_imports_what_it_needs_and_answers_help(script, monkeypatch, capsys):
    monkeypatch.syspath_prepend(BENCH)  # as Python does for a script
    monkeypatch.setattr(sys, "argv", [script.name, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    assert ended.value.code == 0
    assert f"usage: {script.name}" in capsys.readouterr().out


def test_the_benchmark_of_the_gpu_script_is_a_valid_request():
    text = (BENCH / "gpu.sh").read_text().replace("\\\n", " ")
    (arguments,) = re.findall(r"-m jaxgpt\.benchmark attention (.*)", text)
    workloads = _workloads(_parse(shlex.split(arguments)))
    assert [workload.name for workload in workloads] == ["B8 T1024 H12 D64", "B2 T4096 H12 D64"]
