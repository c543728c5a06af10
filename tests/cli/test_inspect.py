"""`jaxgpt inspect`: what a run holds, what is damaged, and what differs between two."""

import contextlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace

import jax
import numpy as np
import pytest
from small_models import random_parameters

import jaxgpt
from jaxgpt.config import RunConfig, apply_settings
from jaxgpt.runs import inspection
from jaxgpt.runs.checkpoints import CheckpointStore
from jaxgpt.runs.directory import RunDirectory
from jaxgpt.runs.manifest import Manifest
from jaxgpt.runs.metrics import MetricsLog
from jaxgpt.runs.saved import load_run

SETTINGS = {"model.context_length": 16, "model.width": 8, "model.layers": 1, "model.heads": 2, "train.steps": 30}
LOSSES = {10: (3.5, 3.25), 20: (3.0, 2.75), 30: (2.5, 3.125)}  # step: (loss, validation loss)


def written(path, tokenizer, settings=(), losses=LOSSES, scale=1.0):
    """A run as training leaves it, without the training."""
    config = apply_settings(
        RunConfig(), SETTINGS | {"model.vocab_size": tokenizer.vocab_size} | dict(settings), "test"
    )
    manifest = Manifest(
        config=config,
        data={"source": "hello.txt", "characters": 12, "sha256": "ab" * 32},
        tokenizer=tokenizer.to_json(),
        versions={"jax": "0.10.2"},
        devices={"count": 2, "platform": "cpu"},
        command="jaxgpt train --out here",
    )
    run = RunDirectory.create(path, manifest)
    params = random_parameters(config.model)
    with CheckpointStore(run.checkpoints_path) as store, MetricsLog(run) as log:
        for step, (loss, validation_loss) in losses.items():
            log.write(step, {"loss": loss})
            log.write(step, {"validation_loss": validation_loss})
            moved = params | {"token_embedding": params["token_embedding"] * scale * step}
            store.save(step, {"params": moved, "optimizer": {"count": np.int32(step)}}, loss=validation_loss)
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory, tokenizer):
    return written(tmp_path_factory.mktemp("runs") / "first", tokenizer)


@pytest.fixture(scope="module")
def other(tmp_path_factory, tokenizer):
    """Another seed; the same until step 10."""
    losses = LOSSES | {20: (3.0, 2.875), 40: (1.0, 1.0)}
    path = written(tmp_path_factory.mktemp("runs") / "second", tokenizer, {"train.seed": 7}, losses)
    manifest = RunDirectory.open(path).manifest
    replace(manifest, versions={"jax": "0.10.3"}, devices={"count": 1, "platform": "cpu"}).write(path)
    return path


def copied(run, tmp_path):
    return shutil.copytree(run, tmp_path / "copy")


def flip_in_arrays(run, step):
    """Flip a bit in each file that holds the parameters' bytes."""
    for path in (run / "checkpoints" / str(step) / "params").rglob("d/*"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)


def size(path):
    return path.stat().st_size


def test_a_run_is_described_from_its_files(command, run):
    code, out, err = command("inspect", run)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == str(run)
    for words in (
        "command: jaxgpt train --out here",
        "progress: saved up to step 30 of 30; last logged: loss 2.5000 at step 30, validation loss 3.1250 at step 30",
        "data: source hello.txt, characters 12, sha256 abababababab",
        "devices: count 2, platform cpu",
        "versions: jax 0.10.2",
        "    model.width = 8",
        "    train.steps = 30",
    ):
        assert any(words in line for line in lines), words
    assert not any("train.batch_size" in line for line in lines)
    rows = [line.split() for line in lines[-3:]]
    assert [row[0] for row in rows] == ["10", "20", "30"]
    assert [row[3:] for row in rows] == [["3.2500"], ["2.7500", "best"], ["3.1250", "last"]]


def test_json_has_the_same_and_every_hash(command, run, tokenizer):
    code, out, _ = command("inspect", run, "--json")
    document = json.loads(out)
    assert code == 0
    assert (document["last"], document["best"], document["steps"]) == (30, 20, 30)
    assert document["tokenizer"]["fingerprint"] == tokenizer.fingerprint()
    assert document["logged"] == {"loss": [30, 2.5], "validation_loss": [30, 3.125]}
    first = document["checkpoints"][0]
    folder = run / "checkpoints" / "10"
    assert first["bytes"] == sum(size(path) for path in folder.rglob("*") if path.is_file())
    record = json.loads((folder / "record" / "metadata").read_text())
    assert first["hash"] == record["sha256"]
    assert first["arrays"]["optimizer/count"] == record["items"]["optimizer"]["count"]["sha256"]


def test_a_loss_that_is_not_a_number_has_a_place_in_the_json(command, tmp_path, tokenizer):
    run = written(tmp_path / "nan", tokenizer, losses={10: (float("nan"), 1.0)})
    document = json.loads(command("inspect", run, "--json")[1], parse_constant=pytest.fail)
    assert document["logged"]["loss"] == [10, "nan"]


def test_a_damaged_record_is_told_without_reading_arrays_and_a_damaged_array_with_verify(command, run, tmp_path):
    run = copied(run, tmp_path)
    record = run / "checkpoints" / "10" / "record" / "metadata"
    record.write_text(record.read_text().replace("float32", "float16", 1))
    flip_in_arrays(run, 30)
    code, out, _ = command("inspect", run)
    assert code == 0
    assert [line.split("damaged: ")[1] for line in out.splitlines() if "damaged: " in line] == [
        "its record does not match the record's own hash"
    ]
    code, out, _ = command("inspect", run, "--verify")
    assert code == 1
    (ten, thirty) = [line for line in out.splitlines() if "damaged: " in line]
    assert ten.split()[0] == "10"
    assert thirty.split()[0] == "30"
    assert "params" in thirty
    twenty = next(line for line in out.splitlines() if line.split()[:1] == ["20"])
    assert twenty.endswith("2.7500           last, best")  # the newest that is sound


def test_what_was_skipped_or_never_finished_is_named(command, run, tmp_path):
    run = copied(run, tmp_path)
    (run / "damaged").mkdir()
    (run / "checkpoints" / "30").rename(run / "damaged" / "30")
    for name in ("40.orbax-checkpoint-tmp", "0099", "notes.old"):
        (run / "checkpoints" / name).mkdir()
    out = command("inspect", run)[1]
    assert f"found damaged and moved to {run / 'damaged'}: 30" in out
    assert "being written, or never finished: 40.orbax-checkpoint-tmp\n" in out
    assert "cannot read its record" not in out
    assert "saved up to step 20 of 30" in out


def test_the_best_is_the_one_that_would_be_taken(command, run, tmp_path):
    run = copied(run, tmp_path)
    flip_in_arrays(run, 20)
    assert json.loads(command("inspect", run, "--json")[1])["best"] == 20
    assert json.loads(command("inspect", run, "--verify", "--json")[1])["best"] == 30
    *_, step = load_run(run, warn=lambda _: None, checkpoint="best")
    assert step == 30


@pytest.mark.parametrize("moment", ["before its size is read", "before its record is read", "before its arrays are"])
def test_a_checkpoint_that_the_run_deletes_meanwhile_is_none(command, run, tmp_path, monkeypatch, moment):
    run = copied(run, tmp_path)

    def deleting(function):
        def first(*arguments):
            with contextlib.suppress(FileNotFoundError):
                (run / "checkpoints" / "10").rename(tmp_path / "gone")
            return function(*arguments)

        return first

    place, name = {
        "before its size is read": (inspection.os, "lstat"),
        "before its record is read": (inspection, "_record"),
        "before its arrays are": (CheckpointStore, "verify"),
    }[moment]
    monkeypatch.setattr(place, name, deleting(getattr(place, name)))
    code, out, err = command("inspect", run, "--verify", "--json")
    assert (code, err) == (0, "")
    assert [facts["step"] for facts in json.loads(out)["checkpoints"]] == [20, 30]


def test_verify_of_a_sound_run_ends_well(command, run):
    code, out, err = command("inspect", run, "--verify")
    assert (code, err) == (0, "")
    assert "every array read and equal to its hash" in out


def test_two_runs_differ_in_settings_surroundings_arrays_and_from_a_logged_step_on(command, run, other):
    code, out, _ = command("inspect", run, other)
    assert code == 0
    lines = [line.strip() for line in out[out.index("differences") :].splitlines()]
    assert lines == [
        "differences (first run, second run):",
        "settings:",
        "train.seed: 1337, 7",
        "data: none",
        "tokenizer: none",
        "versions:",
        "jax: 0.10.2, 0.10.3",
        "devices:",
        "count: 2, 1",
        "arrays at step 10: all equal",
        "arrays at step 20: all equal",
        "arrays at step 30: all equal",
        "logged numbers: equal before step 20, there validation_loss 2.75, 2.875",
    ]


def test_arrays_that_differ_are_named_by_their_hashes(command, run, tmp_path, tokenizer):
    scaled = written(tmp_path / "scaled", tokenizer, scale=2.0)
    differences = json.loads(command("inspect", run, scaled, "--json")[1])["differences"]
    assert differences["arrays"] == {step: ["params/token_embedding"] for step in ("10", "20", "30")}
    assert differences["first_difference"] is None
    assert differences["common_lines"] == 6


def test_a_saved_model_has_no_data_and_no_metrics(command, saved):
    code, out, _ = command("inspect", saved)
    assert code == 0
    assert "data: none" in out
    assert "command: none, it was made from Python" in out
    assert "saved up to step 0 of" in out
    assert "last logged: nothing" in out


def test_what_is_no_run_is_refused(refusal, tmp_path):
    assert "does not exist; expected a run directory" in refusal("inspect", tmp_path / "none")
    assert "is no run directory" in refusal("inspect", tmp_path)


def test_a_run_is_listed_without_jax(run):
    code = "import sys; from jaxgpt.cli import main; code = main(); sys.exit('jax' if 'jax' in sys.modules else code)"
    done = subprocess.run([sys.executable, "-c", code, "inspect", run, run], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "all equal" in done.stdout


def test_parameters_of_equal_hash_are_equal(run, other):
    """The hashes that are compared are those of what is loaded."""
    ours, theirs = (jaxgpt.load(path)[1]["blocks_0"] for path in (run, other))
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)
