"""Damaged checkpoints: whatever happens to a file, the numbers are the saved ones or the one before is used."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import random
import re
import shutil
import sys
import tempfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from jaxgpt.config import WorkError
from jaxgpt.runs.checkpoints import CheckpointStore


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A folder with the checkpoints 1 and 2 of a small state, never changed itself."""
    folder = tmp_path_factory.mktemp("run") / "checkpoints"
    with CheckpointStore(folder) as store:
        for step in (1, 2):
            store.save(step, small_state(step))
    return folder


@pytest.fixture
def folder(sound, tmp_path):
    return shutil.copytree(sound, tmp_path / "run" / "checkpoints")


def small_state(step):
    noise = np.random.default_rng(step).normal(size=(30, 20)).astype(np.float32)
    return {
        "params": {"w": noise, "b": np.full(5, step, jnp.bfloat16)},
        "optimizer": {"mu": noise * 2, "count": np.int32(step)},
    }


def restore(folder, *, writable=False):
    """Return the restored checkpoint and the warnings, having compared every bit with what was saved."""
    warnings = []
    with CheckpointStore(folder, writable=writable) as store:
        restored = store.restore(small_state(0), warn=warnings.append)
    for item, arrays in small_state(restored.step).items():
        for name, array in arrays.items():
            assert restored.items[item][name].tobytes() == array.tobytes()
    return restored.step, warnings


def damages(data, rng):
    """Return every way a file is damaged here: gone, cut short, one bit flipped."""
    cuts = {0, 1, len(data) // 2, len(data) - 1}
    flips = rng.sample(range(8 * len(data)), 5)
    return [None, *(data[:cut] for cut in sorted(cuts)), *(flipped(data, bit) for bit in flips)]


def flipped(data, bit):
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


# Orbax names its data files at random, so they are found, not listed. Nothing that restores from a step's own
# two files: they only describe the checkpoint to Orbax.
@pytest.mark.parametrize(
    ("pattern", "expected"), [("*", {2}), ("params/**/*", {1, 2}), ("optimizer/**/*", {1, 2}), ("record/*", {1, 2})]
)
def test_no_damage_to_any_file_gives_other_numbers(folder, pattern, expected, capfd):
    rng = random.Random(0)
    outcomes = set()
    for path in sorted(path for path in (folder / "2").glob(pattern) if path.is_file()):
        data = path.read_bytes()
        for damaged in damages(data, rng):
            path.unlink(missing_ok=True)
            if damaged is not None:
                path.write_bytes(damaged)
            step, warnings = restore(folder)
            assert len(warnings) == (step == 1), path
            outcomes.add(step)
        path.write_bytes(data)
    assert outcomes == expected
    assert capfd.readouterr() == ("", "")


def data_file(folder, item):
    """The largest file of an item: the one with its arrays' bytes."""
    files = (path for path in (folder / "2" / item).rglob("*") if path.is_file())
    return max(files, key=lambda path: path.stat().st_size)


def flip_middle(path):
    path.write_bytes(flipped(path.read_bytes(), 4 * path.stat().st_size))


def test_a_flipped_bit_is_reported_with_its_tensor_and_moved_aside(folder):
    flip_middle(data_file(folder, "params"))
    step, (warning,) = restore(folder, writable=True)
    aside = folder.parent / "damaged" / "2"
    assert step == 1
    assert warning == (
        f"checkpoint 2 is damaged and was skipped: params/w differs from what was written; it was moved to {aside}"
    )
    assert (aside / "params").is_dir()
    assert restore(folder, writable=True) == (1, [])


def test_many_reads_that_fail_at_once_print_nothing(tmp_path, capfd, caplog, monkeypatch):
    """A read left behind by a failed one ends in a thread of TensorStore, which has no one to raise to."""
    left_behind = []
    monkeypatch.setattr(sys, "unraisablehook", left_behind.append)
    noise = np.random.default_rng(0).normal(size=(60, 1000)).astype(np.float32)
    tree = {"params": {f"w{i}": row for i, row in enumerate(noise)}}
    with CheckpointStore(tmp_path / "checkpoints") as store:
        store.save(1, tree)
    shutil.rmtree(tmp_path / "checkpoints" / "1" / "params" / "d")
    for _ in range(3):
        with CheckpointStore(tmp_path / "checkpoints", writable=False) as store, pytest.raises(WorkError):
            store.restore(tree, warn=lambda _: None)
    gc.collect()  # asyncio complains of forgotten tasks when they are collected
    assert capfd.readouterr() == ("", "")
    assert caplog.records == left_behind == []


def test_a_checkpoint_under_the_name_of_another_step_is_damage(folder):
    (folder / "2").rename(folder / "3")
    step, (warning,) = restore(folder)
    assert step == 1
    assert warning == "checkpoint 3 is damaged and was skipped: its record is that of step 2"


@pytest.mark.parametrize("damage", ["its record", "an array"])
def test_a_damaged_best_is_skipped_for_the_next_best(tmp_path, damage):
    with CheckpointStore(tmp_path) as store:
        for step, loss in [(1, 3.0), (2, 1.0), (3, 2.0), (4, None)]:
            store.save(step, small_state(step), loss=loss)
    flip_middle(tmp_path / "2" / "record" / "metadata" if damage == "its record" else data_file(tmp_path, "params"))
    warnings = []
    with CheckpointStore(tmp_path, writable=False) as store:
        assert store.restore(small_state(0), warn=warnings.append, choice="best").step == 3
        assert store.best() == (3 if damage == "its record" else 2)
        assert warnings[0].startswith("checkpoint 2 is damaged and was skipped: ")
        message = r"no usable checkpoint .*: checkpoint 2 is damaged: .*; take another checkpoint, or put a good copy"
        with pytest.raises(WorkError, match=message):
            store.restore(small_state(0), warn=pytest.fail, choice=2)


def test_a_reader_moves_nothing(folder):
    flip_middle(data_file(folder, "params"))
    for _ in range(2):
        step, (warning,) = restore(folder)
        assert step == 1
        assert "moved" not in warning
    assert sorted(path.name for path in folder.iterdir()) == ["1", "2"]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda params: shutil.rmtree(params / "d"), 'Error reading Byte range [^{}]* of local file "[^{}"]*"'),
        (
            lambda params: (params / "manifest.ocdbt").write_bytes(b"x"),
            r"Error decoding manifest: Encoded length \(1\) is [^{}]*",
        ),
    ],
    ids=["its data gone", "its manifest damaged"],
)
def test_the_reason_why_an_item_cannot_be_read_is_one_clause(folder, damage, reason):
    damage(folder / "2" / "params")
    _, (warning,) = restore(folder)
    words = rf"checkpoint 2 is damaged and was skipped: cannot read its params, optimizer \(\w+: {reason}\)"
    assert re.fullmatch(words, warning), warning


def test_damage_to_an_item_that_is_not_read_does_not_matter(folder):
    flip_middle(data_file(folder, "optimizer"))
    with CheckpointStore(folder, writable=False) as store:
        assert store.restore({"params": small_state(0)["params"]}, warn=pytest.fail).step == 2


def test_a_step_that_was_moved_aside_can_be_saved_and_damaged_again(folder):
    for name in ("2", "2-2", "2-3"):
        flip_middle(data_file(folder, "params"))
        with CheckpointStore(folder, keep=3) as store:
            assert store.restore(small_state(0), warn=lambda _: None).step == 1
            assert (folder.parent / "damaged" / name).is_dir()
            store.save(2, small_state(2))
        assert restore(folder) == (2, [])


def test_where_none_is_usable_the_error_says_what_is_wrong_with_each_and_nothing_is_moved(folder):
    for step in "12":
        shutil.rmtree(folder / step / "params")
    message = r"no usable checkpoint in .*: checkpoint 2 is damaged: .*params.*; checkpoint 1 is damaged: .*params"
    for _ in range(2):  # the second attempt finds what the first one found
        with CheckpointStore(folder) as store, pytest.raises(WorkError, match=message):
            store.restore(small_state(0), warn=pytest.fail)
    assert [path.name for path in folder.parent.iterdir()] == ["checkpoints"]
    assert sorted(path.name for path in folder.iterdir()) == ["1", "2"]


@pytest.mark.parametrize("name", ["0099", "٣", "3.5", "notes"])
def test_a_folder_that_no_step_is_written_to_is_nobodys_checkpoint(folder, name):
    (folder / name).mkdir()
    (folder / "3").write_text("a file, not a folder")
    assert restore(folder, writable=True) == (2, [])
    assert sorted(path.name for path in folder.iterdir()) == sorted(["1", "2", "3", name])


def test_an_empty_folder_of_a_step_is_damage(folder):
    shutil.rmtree(folder / "2")
    (folder / "2").mkdir()
    step, (warning,) = restore(folder)
    assert step == 1
    assert warning.startswith("checkpoint 2 is damaged and was skipped: cannot read its record (")


def test_a_record_rewritten_to_fit_other_numbers_needs_its_own_hash(folder):
    record = folder / "2" / "record" / "metadata"
    record.write_text(record.read_text().replace('"dtype": "int32"', '"dtype": "uint32"'))
    step, (warning,) = restore(folder)
    assert step == 1
    assert "its record does not match the record's own hash" in warning


@contextlib.contextmanager
def without_root():
    """Take root's right to read everything away; another user has it not."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.parametrize(
    "name", ["record/metadata", "params", "params/_METADATA", "params/manifest.ocdbt", "params/d"]
)
def test_what_may_not_be_read_is_not_taken_for_damage(sound, name):
    with tempfile.TemporaryDirectory() as open_to_all:
        os.chmod(open_to_all, 0o755)
        folder = shutil.copytree(sound, Path(open_to_all) / "checkpoints")
        with CheckpointStore(folder) as store:
            store.restore(small_state(0), warn=pytest.fail)  # so that everything is imported
            (folder / "2" / name).chmod(0)
            with without_root(), pytest.raises(WorkError, match=r"cannot read checkpoint 2 in .*: Permission denied"):
                store.restore(small_state(0), warn=pytest.fail)
            (folder / "2" / name).chmod(0o755)
            assert store.restore(small_state(0), warn=pytest.fail).step == 2
        assert [path.name for path in folder.parent.iterdir()] == ["checkpoints"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files"),
        (MemoryError(), "out of memory"),
        (ValueError("RESOURCE_EXHAUSTED: Error opening file"), "out of memory, or too many open files"),
    ],
    ids=repr,
)
def test_a_process_that_lacks_memory_or_files_moves_nothing(folder, monkeypatch, error, words):
    def fail(*_, **__):
        raise error

    with CheckpointStore(folder) as store:
        monkeypatch.setattr(store._manager, "restore", fail)
        with pytest.raises(WorkError, match=f"cannot read checkpoint 2 in .*: {words}; nothing was moved"):
            store.restore(small_state(0), warn=pytest.fail)
    assert sorted(path.name for path in folder.iterdir()) == ["1", "2"]
