"""What a run logs and shows on the way, and that watching it changes nothing."""

import logging
import re

import jax
import pytest
from repeatable import repeatable_metrics

from jaxgpt.config import RequestError, WorkError
from jaxgpt.runs.directory import RunDirectory
from jaxgpt.runs.metrics import MEASURED, MetricsLog, read_metrics, read_samples
from jaxgpt.sharding.mesh import data_mesh
from jaxgpt.training import reporter as reporter_module
from jaxgpt.training.console import Console
from jaxgpt.training.evaluate import Estimate
from jaxgpt.training.loop import Evaluation
from jaxgpt.training.material import gather_material
from jaxgpt.training.reporter import Reporter
from jaxgpt.training.run import train
from jaxgpt.training.setup import OpenRun, open_run
from jaxgpt.training.utilization import PEAK_TFLOPS

SAMPLED = {"train.sample_tokens": 3, "train.sample_every": 2}


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


def bits(state):
    return [leaf.tobytes() for leaf in jax.tree.leaves(jax.device_get(state))]


def test_samples_on_the_way_change_no_number_and_compile_once(tiny, run, tmp_path, capsys, caplog):
    plain = train(tiny(), out=tmp_path / "plain")
    capsys.readouterr()
    with jax.log_compiles(True), caplog.at_level(logging.WARNING):
        watched = train(tiny(SAMPLED), out=run)
    assert bits(watched) == bits(plain)
    assert repeatable_metrics(run) == repeatable_metrics(tmp_path / "plain")
    compiled = re.findall(r"Finished XLA compilation of jit\((\w+)\)", caplog.text)
    for program in ("prefill", "begin", "decode"):  # another test of this process may have compiled them
        assert compiled.count(program) <= 1
    samples = read_samples(run / "samples.jsonl")
    assert [sample["step"] for sample in samples] == [2, 4, 6]
    printed = capsys.readouterr().out
    for sample in samples:
        assert f"step {sample['step']:>6}  {sample['text']}\n" in printed
        assert sample["text"].startswith("sample (temperature 0.8, 3 tokens):\n")
    (events,) = (run / "tensorboard").iterdir()
    assert samples[0]["text"].split("\n")[1].encode() in events.read_bytes()


def test_a_resume_forgets_the_samples_after_its_checkpoint(tiny, run):
    train(tiny(SAMPLED | {"train.stop_after": 4}), out=run)
    with (run / "samples.jsonl").open("a") as file:
        file.write('{"step": 5, "text": "of a process that was killed before its checkpoint"}\n{"step": 6, "te')
    train(tiny(SAMPLED), out=run)
    assert [sample["step"] for sample in read_samples(run / "samples.jsonl")] == [2, 4, 6]


def test_samples_without_a_length_are_refused(tiny):
    with pytest.raises(RequestError, match=r"train.sample_every 2 means nothing with train.sample_tokens 0"):
        tiny({"train.sample_every": 2})


@pytest.fixture
def reporter(tiny, run):
    """Return a function that opens the run and gives a reporter of it, as each process does."""

    def opened(settings=()):
        config = tiny(settings)
        material = gather_material(config, None, pytest.fail)
        mesh = data_mesh(1)
        existing = RunDirectory.open(run) if run.exists() else None
        directory = existing or open_run(material, mesh, None, run, None)
        return Reporter(OpenRun(directory, None, MetricsLog(directory)), material, mesh, Console())

    return opened


class TurnedClock:
    """A clock whose hands the test turns."""

    def __init__(self):
        self.hands = {"training": 0.0, "waiting for data": 0.0}

    def seconds(self, name):
        return self.hands[name]


def test_a_logged_line_says_how_fast_the_steps_since_the_line_before_were(reporter, run, capsys):
    reporter = reporter({"train.log_every": 2})
    reporter.clock, reporter.tokens_per_step = TurnedClock(), 32
    for done, seconds in enumerate((4, 2, 2, 6), start=1):
        reporter.clock.hands["training"] += seconds
        reporter.clock.hands["waiting for data"] += 0.5
        reporter.step(done, {"loss": 3.0, "grad_norm": 1.0, "learning_rate": 0.1})
    lines = read_metrics(run / "metrics.jsonl")
    assert [(line["step"], line["tokens_per_second"]) for line in lines] == [(1, 8.0), (2, 16.0), (4, 8.0)]
    assert [line["loader_share"] for line in lines] == [0.125, 0.25, 0.125]
    assert reporter.tokens_per_second == 4 * 32 / 14
    assert "loss 3.0000  16 tokens/s  MFU n/a" in capsys.readouterr().out


def test_a_line_has_the_share_of_the_peak_where_one_is_known(reporter, run, monkeypatch):
    monkeypatch.setitem(PEAK_TFLOPS, jax.devices()[0].device_kind, {"float32": 1e-6})  # a million FLOP a second
    reporter = reporter()
    reporter.clock, reporter.tokens_per_step = TurnedClock(), 32
    reporter.clock.hands["training"] = 4.0
    reporter.step(1, {"loss": 3.0, "grad_norm": 1.0, "learning_rate": 0.1})
    (line,) = read_metrics(run / "metrics.jsonl")
    # one layer of width 8, two heads of 4, 28 tokens: 6 x (872 + 16 + 224) + 12 x 8 x 8 FLOP a token
    assert line["mfu"] == pytest.approx(8 * (6 * 1112 + 768) / 1e6)
    assert {name for name in line if name in MEASURED} == set(MEASURED)


def test_a_sample_that_cannot_be_drawn_is_told_and_the_run_goes_on(reporter, run, monkeypatch, capsys):
    def draw(_material, params):
        if params["bad"]:
            raise WorkError("the logits are not finite")
        return ["sample:", "text"]

    monkeypatch.setattr(reporter_module, "sample_lines", draw)
    reporter = reporter(SAMPLED)
    reporter.sample(2, {"bad": True})
    reporter.sample(4, {"bad": False})
    assert (
        capsys.readouterr().out == "step      2  no sample: the logits are not finite\nstep      4  sample:\ntext\n"
    )
    assert read_samples(run / "samples.jsonl") == [{"step": 4, "text": "sample:\ntext"}]


def evaluation(step, loss):
    return Evaluation(step, *[Estimate(loss, 0.1, 80)] * 3)


def test_a_validation_that_keeps_rising_is_noted_also_across_a_resume(reporter, capsys):
    losses = (3.0, 2.5, 2.6, 2.7, 2.8)
    first = reporter({"train.note_after_rises": 3})
    for step, loss in enumerate(losses[:3], start=1):
        first.evaluated(evaluation(step, loss))
    assert "note:" not in capsys.readouterr().out
    again = reporter({"train.note_after_rises": 3})
    for step, loss in enumerate(losses[3:], start=4):
        again.evaluated(evaluation(step, loss))
    printed = capsys.readouterr().out
    assert printed.count("best validation so far 2.5000 at step 2") == 2
    assert "note: validation has risen 3 evaluations in a row since step 2 (2.5000): the model learns" in printed
    assert printed.count("note:") == 1
