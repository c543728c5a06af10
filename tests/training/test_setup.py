"""What a run begins or continues with: decided before anything is compiled, so nothing is compiled here."""

import dataclasses
import os
import re
import shutil

import jax
import numpy as np
import pytest
from small_models import random_parameters

import jaxgpt
from jaxgpt.config import RequestError
from jaxgpt.data.tokenizer import CharacterTokenizer
from jaxgpt.runs.directory import RunDirectory
from jaxgpt.training import run as run_module
from jaxgpt.training.material import gather_material
from jaxgpt.training.programs import Programs, make_mesh, training_batches
from jaxgpt.training.run import train
from jaxgpt.training.stop import StoppedError


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


class ReachedError(Exception):
    """A run came as far as its compilation."""


@pytest.fixture
def begin(monkeypatch):
    """Return a function that trains up to the compilation, as if killed there, and returns the state it would use."""

    def die(material, mesh, state):
        raise ReachedError(state)

    def until_compilation(config, out):
        monkeypatch.setattr(run_module, "compile_programs", die)
        with pytest.raises(ReachedError) as reached:
            train(config, out=out)
        return reached.value.args[0]

    return until_compilation


@pytest.fixture
def saved(tiny, text_file, tmp_path):
    """A model of the tiny run's architecture, saved with the text's tokenizer; and its parameters."""
    tokenizer = CharacterTokenizer.train(text_file.read_text())
    config = tiny().model.replace(vocab_size=tokenizer.vocab_size)
    params = random_parameters(config)
    jaxgpt.save(tmp_path / "saved", config, params, tokenizer)
    return tmp_path / "saved", params


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def test_fine_tuning_that_died_before_its_first_checkpoint_starts_from_its_source_again(tiny, run, saved, begin):
    source, params = saved
    for _ in range(2):
        assert same(begin(tiny({"train.init_from": str(source)}), run).params, params)


def test_fine_tuning_with_a_checkpoint_needs_its_source_no_more(tiny, run, saved, begin):
    source, _ = saved
    config = tiny({"train.init_from": str(source)})
    begin(config, run)
    shutil.copytree(source / "checkpoints", run / "checkpoints", dirs_exist_ok=True)
    shutil.rmtree(source)
    material = gather_material(config, RunDirectory.open(run), pytest.fail)
    assert material.start is None


def test_fine_tuning_from_what_is_not_there_names_the_setting(tiny, run, tmp_path):
    with pytest.raises(RequestError, match=r"train\.init_from: .*absent does not exist"):
        train(tiny({"train.init_from": str(tmp_path / "absent")}), out=run)


def test_fine_tuning_from_a_model_without_a_tokenizer_is_refused(tiny, run, saved, tmp_path):
    config, params, _ = jaxgpt.load(saved[0])
    jaxgpt.save(tmp_path / "bare", config, params)
    with pytest.raises(
        RequestError, match=r"bare holds no tokenizer; name the one it was trained with in data\.tokenizer"
    ):
        train(tiny({"train.init_from": str(tmp_path / "bare")}), out=run)


def log_steps(run, last):
    (run / "metrics.jsonl").write_text("".join(f'{{"step": {step}, "loss": 3.0}}\n' for step in range(1, last + 1)))


@pytest.mark.parametrize(("lost", "logged"), [("folder", 1), ("contents", 7)])
def test_a_run_that_lost_its_checkpoints_is_refused_and_keeps_its_log(tiny, run, begin, lost, logged):
    begin(tiny(), run)  # saves every second step
    log_steps(run, logged)
    if lost == "folder":
        (run / "checkpoints").rmdir()
    before = (run / "metrics.jsonl").read_bytes()
    words = rf"{run} was trained to step {logged} at least.*put {run}/checkpoints back"
    for _ in range(2):
        with pytest.raises(RequestError, match=words):
            train(tiny(), out=run)
    assert (run / "metrics.jsonl").read_bytes() == before


def test_a_run_that_ended_before_its_first_checkpoint_starts_again_and_says_so(tiny, run, begin, capsys):
    begin(tiny(), run)
    log_steps(run, 6)
    begin(tiny(), run)
    assert "after step 0\n  it ended before its first checkpoint, so it starts again\n" in capsys.readouterr().out
    assert (run / "metrics.jsonl").read_bytes() == b""


def test_a_text_that_moved_is_followed(tiny, run, text_file, begin):
    begin(tiny(), run)
    moved = text_file.rename(text_file.with_name("moved.txt"))
    begin(tiny({"data.path": str(moved)}), run)
    assert RunDirectory.open(run).manifest.config.data.path == str(moved)


def test_a_run_on_a_relative_path_continues_from_any_folder(tiny, run, text_file, begin, monkeypatch, tmp_path):
    monkeypatch.chdir(text_file.parent)
    begin(tiny({"data.path": text_file.name}), run)
    stored = RunDirectory.open(run).manifest.config
    assert stored.data.path == str(text_file)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    begin(stored, run)
    begin(tiny({"data.path": os.path.relpath(text_file)}), run)


def test_a_saved_model_is_not_continued_but_may_be_trained_from(tiny, saved):
    with pytest.raises(RequestError, match=r"is a saved model, .* use --train\.init_from \S+saved and another --out"):
        train(tiny(), out=saved[0])


def test_settings_that_changed_are_told_but_not_that_a_pause_is_over(tiny, run, begin, capsys):
    begin(tiny({"train.stop_after": 3}), run)
    begin(tiny({"train.save_every": 4}), run)
    assert re.findall(".* was .*", capsys.readouterr().out) == ["  train.save_every was 2, is now 4"]


def test_other_versions_or_devices_are_warned_of_and_taken_over(tiny, run, begin, capsys):
    begin(tiny(), run)
    manifest = RunDirectory.open(run).manifest
    assert manifest.devices == {"count": 1, "platform": "cpu", "kind": "cpu"}
    other = dataclasses.replace(
        manifest, versions=manifest.versions | {"jax": "0.1"}, devices=manifest.devices | {"count": 7}
    )
    other.write(run)
    capsys.readouterr()
    begin(tiny(), run)
    out, err = capsys.readouterr()
    assert "warning" not in out
    assert err.startswith(
        f"jaxgpt: warning: jax was 0.1, is now {jax.__version__}; device count was 7, is now 1: the run goes on, but "
    )
    assert RunDirectory.open(run).manifest == manifest
    begin(tiny(), run)
    assert capsys.readouterr().err == ""


def test_the_quick_estimate_of_the_training_split_is_not_made_of_the_batches_trained_on_first(tiny):
    material = gather_material(tiny({"train.batch_size": 8, "train.eval_batches": 4}), None, pytest.fail)
    programs = Programs(material.config, make_mesh(material.config), None, None, 0.0)
    trained = training_batches(material)
    pairs = [
        (np.asarray(estimated["token_ids_BT"]), trained.batch_at(step)["token_ids_BT"])
        for step, estimated in enumerate(programs.random_batches(material.splits.train))
    ]
    assert len(pairs) == 4
    assert not any(np.array_equal(estimated, batch) for estimated, batch in pairs)


def test_a_run_that_is_to_be_compiled_for_another_platform_is_refused(tiny):
    with pytest.raises(RequestError, match=r"execution\.platform is tpu, but this process computes on cpu"):
        make_mesh(tiny({"execution.platform": "tpu"}))


def test_ctrl_c_during_the_compilation_says_how_to_continue(tiny, run, monkeypatch):
    def interrupted(_material, _mesh, _state):
        raise KeyboardInterrupt

    monkeypatch.setattr(run_module, "compile_programs", interrupted)
    with pytest.raises(StoppedError, match=rf"^interrupted; continue with: jaxgpt train --out {run}$") as stopped:
        train(tiny(), out=run)
    assert stopped.value.exit_code == 130
