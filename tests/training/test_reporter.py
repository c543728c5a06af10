"""What a run logs and shows on the way, and that watching it changes nothing."""

import logging
import re

import jax
import pytest
from repeatable import repeatable_metrics

from jaxgpt.config import RequestError
from jaxgpt.runs.metrics import MEASURED, read_metrics, read_samples
from jaxgpt.training.reporter import Reporter
from jaxgpt.training.run import train

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
    assert compiled.count("decode") == compiled.count("prefill") == 1
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


def test_every_logged_line_says_how_fast_the_steps_since_the_line_before_were(tiny, run, monkeypatch):
    """A clock that the test moves: a step takes 2 s, an evaluation 100 s, and fetching a batch no time."""
    seconds = {"training": 0.0, "waiting for data": 0.0}

    class Clock:
        def seconds(self, name):
            return seconds[name]

    reporter = Reporter.__new__(Reporter)
    written = []
    reporter.__dict__.update(vars(_Bare(tiny({"train.log_every": 2}), written)))
    reporter.clock = Clock()
    for done in (1, 2, 3, 4):
        seconds["training"] += 2 if done < 4 else 6
        seconds["waiting for data"] += 0.5
        reporter.step(done, {"loss": 3.0})
    rates = [(step, line["tokens_per_second"], line["loader_share"]) for step, line in written]
    assert rates == [(1, 16.0, 0.25), (2, 16.0, 0.25), (4, 8.0, 0.125)]
