"""Whole runs, from config to run directory."""

import dataclasses
import itertools
import json
import math
import os
import re
import shlex
import signal
import subprocess
import time
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from program import PROGRAM, nobody_reading
from repeatable import repeatable_metrics

import jaxgpt
from jaxgpt.cli import main
from jaxgpt.config import RequestError, WorkError
from jaxgpt.generation.generate import Generation
from jaxgpt.runs.checkpoints import CheckpointStore
from jaxgpt.runs.directory import RunDirectory
from jaxgpt.runs.metrics import read_metrics
from jaxgpt.runs.step_folders import saved_steps
from jaxgpt.training import loop, samples
from jaxgpt.training.evaluate import Estimate
from jaxgpt.training.material import gather_material
from jaxgpt.training.programs import Programs
from jaxgpt.training.run import train


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


def losses(run):
    return [line["loss"] for line in read_metrics(run / "metrics.jsonl") if "loss" in line]


def test_a_run_learns_and_describes_itself(tiny, run, capsys):
    settings = {"train.steps": 60, "optimizer.learning_rate": 0.02, "train.sample_tokens": 5}
    state = train(tiny(settings | {"train.eval_every": 30, "train.save_every": 30}), out=run)
    printed = capsys.readouterr().out
    assert int(state.step) == 60
    assert losses(run)[-1] < losses(run)[0] - 1
    for words in (
        "model.width = 8",
        "total",
        "weight decay 0.1 on",
        "first loss",
        "ln V = ln 28 = 3.3322",
        "validation loss",
        "sample (temperature 0.8, 5 tokens)",
        "tokens/s  MFU n/a",
        "MFU: n/a: no published peak is known here for device 'cpu' computing in float32",
        "best validation so far",
        "peak memory",
        f"jaxgpt train --out {run} --train.steps 120",
    ):
        assert words in printed, words
    manifest = RunDirectory.open(run).manifest
    assert manifest.config.model.vocab_size == 28
    assert manifest.data["characters"] == 900
    assert manifest.versions["jax"] == jax.__version__
    assert list((run / "tensorboard").glob("events*"))
    config, params, tokenizer = jaxgpt.load(run)
    assert config == manifest.config.model
    assert tokenizer.decode(tokenizer.encode("lazy dog")) == "lazy dog"
    for a, b in zip(jax.tree.leaves(params), jax.tree.leaves(state.params), strict=True):
        assert np.array_equal(a, b)
    (sample,) = re.findall(r"sample from it with:\n  (jaxgpt generate .*)", printed)
    assert main(shlex.split(sample)[1:]) == 0
    assert len(capsys.readouterr().out) == 9  # the context, and a line break


def test_the_sample_puts_the_parameters_on_one_device_once(tiny, monkeypatch):
    material = gather_material(tiny({"train.sample_tokens": 3}), None, pytest.fail)
    params = jaxgpt.init(material.config.model, key=jax.random.key(0))
    seen = []

    def generate(config, params, prompts, **options):
        assert options["drawable_ids"] == material.tokenizer.vocab_size
        seen.extend(jax.tree.leaves(params))
        return Generation(prompts, ["length"])

    monkeypatch.setattr(samples, "generate", generate)
    lines = samples.sample_lines(material, jax.device_get(params))
    assert lines[0] == "sample (temperature 0.8, 3 tokens):"
    assert all(isinstance(leaf, jax.Array) and leaf.devices() == {jax.devices()[0]} for leaf in seen)
    assert len(seen) > 10


@pytest.mark.ci
def test_the_logged_validation_loss_is_the_loss_of_the_saved_model(tiny, run):
    train(tiny(), out=run)
    config, params, tokenizer = jaxgpt.load(run)
    text = "the quick brown fox jumps over the lazy dog; " * 20
    ids = tokenizer.encode(text)[810:]
    windows = np.stack([ids[i : i + 9] for i in range(0, 81, 8)])[:11]
    batch = {"token_ids_BT": windows[:, :-1], "target_ids_BT": windows[:, 1:], "weights_BT": np.ones((11, 8))}
    logged = [line["validation_loss"] for line in read_metrics(run / "metrics.jsonl") if "validation_loss" in line]
    assert logged[-1] == pytest.approx(float(jax.jit(jaxgpt.loss)(config, params, batch)[0]), rel=1e-6)


@pytest.mark.ci
def test_an_existing_run_is_continued_and_says_so(tiny, run, capsys):
    train(tiny({"train.stop_after": 3}), out=run)
    assert f"jaxgpt train --out {run}\n" in capsys.readouterr().out
    train(tiny(), out=run)
    printed = capsys.readouterr().out
    assert f"continuing {run} after step 3" in printed
    assert " was " not in printed
    train(tiny(), out=run)
    assert "nothing to do: the run is at step 6 of 6" in capsys.readouterr().out


@pytest.mark.ci
@pytest.mark.parametrize(
    "change", [{"model.width": 16}, {"train.seed": 1}, {"train.batch_size": 8}, {"data.validation_fraction": 0.2}]
)
def test_settings_that_would_make_it_another_run_are_refused(tiny, run, change):
    train(tiny({"train.stop_after": 2}), out=run)
    with pytest.raises(RequestError, match=next(iter(change))):
        train(tiny(change), out=run)


@pytest.mark.ci
def test_a_run_is_not_continued_on_another_text(tiny, run, text_file):
    train(tiny({"train.stop_after": 2}), out=run)
    text_file.write_text(text_file.read_text().replace("lazy", "idle"))
    with pytest.raises(RequestError, match="text"):
        train(tiny(), out=run)


def test_a_vocabulary_size_that_differs_from_the_tokenizer_is_refused_before_anything_is_written(tiny, run):
    with pytest.raises(
        RequestError, match=r"vocab_size is 29, but the tokenizer has 28 ids.*--model.vocab_size none"
    ):
        train(tiny({"model.vocab_size": 29}), out=run)
    assert not run.exists()


def test_a_text_no_longer_than_the_context_is_refused_with_both_numbers(tiny, run):
    with pytest.raises(RequestError, match=r"810.*900|900.*810"):
        train(tiny({"model.context_length": 900}), out=run)
    assert not run.exists()


@pytest.mark.ci
def test_fine_tuning_starts_from_the_parameters_of_another_run(tiny, run, tmp_path):
    train(tiny({"train.steps": 60, "optimizer.learning_rate": 0.02}), out=run)
    train(tiny({"train.init_from": str(run)}), out=tmp_path / "tuned")
    assert losses(tmp_path / "tuned")[0] < losses(run)[0] - 1
    with pytest.raises(RequestError, match=r"model.layers = 1, this run asks for 2"):
        train(tiny({"train.init_from": str(run), "model.layers": 2}), out=tmp_path / "other")


@pytest.mark.ci
def test_a_learning_rate_that_explodes_stops_the_run_and_names_the_step_and_tensor(tiny, run):
    with pytest.raises(WorkError, match=r"step (\d+) is not finite: the first bad tensor is \S+") as caught:
        train(tiny({"optimizer.learning_rate": 1e15, "optimizer.warmup_steps": 0}), out=run)
    step = int(str(caught.value).split()[1])
    assert len(losses(run)) == step - 1 > 0
    assert all(math.isfinite(loss) for loss in losses(run))
    _, params, _ = jaxgpt.load(run)
    assert all(np.isfinite(p).all() for p in jax.tree.leaves(params))


def test_steps_that_are_not_finite_are_skipped_on_request_also_across_a_resume(tiny, tmp_path, poison, capsys):
    poison({1, 3})
    settings = {"train.non_finite": "skip"}
    whole = train(tiny(settings), out=tmp_path / "whole")
    printed = capsys.readouterr().out
    place = r"the window at token \d+"
    assert re.search(rf"step +2  not finite, skipped \(its batch: {place}, .*\); 1 skipped so far\n", printed)
    assert re.search(r"step +4  not finite, skipped \(its batch: .*\); 2 skipped so far\n", printed)
    assert "steps that were not finite and were skipped: 2 of 6" in printed
    for stop in (2, 3, None):
        state = train(tiny(settings | {"train.stop_after": stop}), out=tmp_path / "run")
    assert (int(state.step), int(state.skipped)) == (6, 2)
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(whole), strict=True):
        assert np.array_equal(a, b)
    lines = repeatable_metrics(tmp_path / "run")
    assert str(lines) == str(repeatable_metrics(tmp_path / "whole"))
    steps = [line for line in lines if "loss" in line]
    assert [line["skipped"] for line in steps] == [0, 1, 1, 2, 2, 2]
    assert [math.isnan(line["loss"]) for line in steps] == [False, True, False, True, False, False]


def test_the_best_by_validation_is_a_checkpoint_also_after_a_resume(tiny, run, monkeypatch, capsys):
    losses = iter([3.0, 1.0, 2.5, 2.0, 1.5, 4.0])
    monkeypatch.setattr(Programs, "evaluate_whole", lambda *_: Estimate(next(losses), 0.1, 100))
    settings = {"train.eval_every": 1, "train.save_every": 100, "train.keep_checkpoints": 2}
    on_disk = []
    for stop in (1, 2, 4, None):
        train(tiny(settings | {"train.stop_after": stop}), out=run)
        on_disk.append(saved_steps(run / "checkpoints"))
    assert on_disk == [[1], [1, 2], [2, 4], [2, 4, 6]]  # 3 and 5 were neither the best so far nor the last
    footer = (
        "last checkpoint: step 6, validation loss 4.0000; best: step 2, validation loss 1.0000 (--checkpoint best)"
    )
    assert footer in capsys.readouterr().out
    parameters = {choice: jaxgpt.load(run, checkpoint=choice)[1] for choice in ("best", 2, "last")}
    embeddings = {choice: np.asarray(params["token_embedding"]) for choice, params in parameters.items()}
    assert np.array_equal(embeddings["best"], embeddings[2])
    assert not np.array_equal(embeddings["best"], embeddings["last"])


def test_checkpoints_are_saved_by_minutes_of_a_clock_that_cannot_jump(tiny, run, monkeypatch):
    seconds = itertools.count(0, 30)  # each look at it takes half a minute
    clock = SimpleNamespace(perf_counter=time.perf_counter, monotonic=lambda: next(seconds))
    monkeypatch.setattr(loop, "time", clock)
    train(tiny({"train.save_minutes": 1.0, "train.save_every": 100, "train.eval_every": 100}), out=run)
    assert saved_steps(run / "checkpoints") == [2, 4, 6]


def damage(path):
    """Cut the largest file in half."""
    largest = max((p for p in path.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    largest.write_bytes(largest.read_bytes()[: largest.stat().st_size // 2])


def test_a_damaged_checkpoint_is_skipped_with_a_warning_and_training_ends_as_if_it_were_whole(
    tiny, run, tmp_path, capsys
):
    whole = train(tiny(), out=tmp_path / "whole")
    train(tiny({"train.stop_after": 4}), out=run)
    damage(run / "checkpoints" / "4")
    capsys.readouterr()
    state = train(tiny(), out=run)
    printed, error = capsys.readouterr()
    assert error.startswith("jaxgpt: warning: checkpoint 4 is damaged")
    assert "warning" not in printed
    assert f"continuing {run} after step 3" in printed  # saved as the best so far
    for a, b in zip(jax.tree.leaves(state.params), jax.tree.leaves(whole.params), strict=True):
        assert np.array_equal(a, b)
    assert losses(run) == losses(tmp_path / "whole")


def test_with_every_checkpoint_damaged_the_work_fails(tiny, run):
    train(tiny({"train.stop_after": 2}), out=run)
    damage(run / "checkpoints" / "2")
    logged = losses(run)
    for _ in range(2):  # nothing was moved, so the second attempt meets the same
        with pytest.raises(WorkError, match=r"no usable checkpoint .*: checkpoint 2 is damaged"):
            train(tiny(), out=run)
    assert losses(run) == logged


@pytest.mark.ci
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.ci)])
def test_a_signal_saves_and_ends_with_the_command_that_continues(tiny, run, text_file, tmp_path, number):
    config = tiny({"train.steps": 100_000, "train.save_every": 100_000, "train.eval_every": 100_000})
    toml = tmp_path / "config.toml"
    nested = {name: fields for name, fields in dataclasses.asdict(config).items() if fields}
    toml.write_text(as_toml(nested))
    python, option, program = PROGRAM
    # Both may be ignored here, as they are in the background of a shell.
    handled = "from signal import *; signal(SIGINT, default_int_handler); signal(SIGTERM, SIG_DFL); "
    command = [python, option, handled + program, "train", "--config", str(toml), "--out", str(run)]
    child = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: (run / "metrics.jsonl").exists() and len(losses(run)) > 5, child)
    os.kill(child.pid, number)
    _, error = child.communicate(timeout=60)
    assert child.returncode == 128 + number
    assert f"continue with: jaxgpt train --out {run}" in error
    saved = RunDirectory.open(run).checkpoints_path
    assert [int(p.name) for p in saved.iterdir()] == [len(losses(run))]


def test_a_run_whose_output_nobody_reads_goes_on_in_silence(tiny, tmp_path, monkeypatch, capsys):
    with nobody_reading(monkeypatch):
        state = train(tiny(), out=tmp_path / "run")
    assert int(state.step) == 6
    assert CheckpointStore(tmp_path / "run" / "checkpoints", writable=False).steps()[-1] == 6
    error = capsys.readouterr().err
    assert error.startswith("jaxgpt: warning: standard output: Broken pipe; the run goes on in silence, ")
    assert error.count("\n") == 1


def wait_for(condition, child, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def as_toml(nested):
    lines = []
    for section, fields in nested.items():
        lines.append(f"[{section}]")
        lines += [f"{name} = {json.dumps(value)}" for name, value in fields.items() if value is not None]
    return "\n".join(lines)
