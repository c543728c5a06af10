"""Processes that are killed, and disks that are full: the last good checkpoint stays usable."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from jaxgpt.config import WorkError
from jaxgpt.runs.checkpoints import CheckpointStore

# Saves step after step; every array of a checkpoint holds its step, so a mixture of two would show.
SAVE_FOREVER = """
import sys
from pathlib import Path
import numpy as np
from jaxgpt.runs.checkpoints import CheckpointStore
folder = Path(sys.argv[1])
with CheckpointStore(folder, keep=2) as store:
    like = {"params": {"w": np.zeros(300_000, np.float32), "b": np.int32(0)}}
    store.remove_unfinished(print)
    first = 1 if not store.steps() else store.restore(like, warn=lambda m: print(m, flush=True)).step + 1
    for step in range(first, 10**6):
        tree = {"w": np.random.default_rng(step).normal(size=300_000).astype(np.float32), "b": np.int32(step)}
        store.save(step, {"params": tree})
        print("step", step, flush=True)
"""

# The last save succeeds, then one fails while the store closes.
FULL_DISK = """
import resource, sys
from pathlib import Path
import numpy as np
from jaxgpt.config import WorkError
from jaxgpt.runs.checkpoints import CheckpointStore
noise = np.random.default_rng(0).normal(size=300_000).astype(np.float32)
tree = {"params": {"w": noise, "b": np.int32(1)}}
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
with CheckpointStore(Path(sys.argv[1]), keep=2) as store:
    store.save(0, tree)
    store.save(1, tree)
    store.wait()
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    for step in (2, 3):
        try:
            store.save(step, tree)
            store.wait()
        except WorkError as error:
            print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    store.save(4, tree)
try:
    with CheckpointStore(Path(sys.argv[1]), keep=2) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        store.save(5, tree)
except WorkError as error:
    print(error)
"""


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run" / "checkpoints"


def newest(folder, *, writable):
    template = {"params": {"w": jax.ShapeDtypeStruct((300_000,), "float32"), "b": np.int32(0)}}
    warnings = []
    with CheckpointStore(folder, writable=writable) as store:
        if writable:
            store.remove_unfinished(warnings.append)
        return store.restore(template, warn=warnings.append), warnings


def test_a_killed_process_leaves_its_newest_checkpoint_usable(folder):
    rng = np.random.default_rng(0)
    reached = 0
    for _ in range(2):
        child = subprocess.Popen([sys.executable, "-c", SAVE_FOREVER, folder], stdout=subprocess.PIPE, text=True)
        while not (line := child.stdout.readline()).startswith(f"step {reached + 2}"):
            assert line, "the child ended"
        time.sleep(rng.uniform(0, 0.1))
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        restored, warnings = newest(folder, writable=False)
        params = restored.items["params"]
        assert warnings == []
        assert restored.step == params["b"] > reached
        expected = np.random.default_rng(restored.step).normal(size=300_000).astype(np.float32)
        assert np.asarray(params["w"]).tobytes() == expected.tobytes()
        reached = restored.step


def test_an_unfinished_write_is_reported_and_removed(folder):
    with CheckpointStore(folder) as store:
        store.save(1, {"params": {"w": np.zeros(300_000, np.float32), "b": np.int32(1)}})
    leftover = folder / "2.orbax-checkpoint-tmp"
    (leftover / "params").mkdir(parents=True)
    assert newest(folder, writable=False)[1] == []
    restored, warnings = newest(folder, writable=True)
    assert restored.step == 1
    assert warnings == ["checkpoint 2 was never finished; its leftover was removed"]
    assert not leftover.exists()


def test_an_unfinished_first_write_is_removed_too(folder):
    (folder / "7.orbax-checkpoint-tmp" / "params").mkdir(parents=True)
    warnings = []
    with CheckpointStore(folder) as store:
        store.remove_unfinished(warnings.append)
    assert warnings == ["checkpoint 7 was never finished; its leftover was removed"]
    assert list(folder.iterdir()) == []


@pytest.fixture
def half_deleted(folder):
    """Checkpoints 1 to 4, two kept and the first the best so far: its deletion was begun and not finished."""
    with CheckpointStore(folder, keep=2) as store:
        for step, loss in [(1, 1.0), (2, 3.0), (3, 2.0)]:
            store.save(step, small(step), loss=loss)
        store.wait()
        shutil.copytree(folder / "1", folder.parent / "1")
        store.save(4, small(4), loss=0.5)
    assert store.steps() == [3, 4]
    (folder.parent / "1").rename(folder / "1")
    for part in ("record", "_CHECKPOINT_METADATA"):
        path = folder / "1" / part
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return folder


def small(step):
    return {"params": {"w": np.full(300_000, step, np.float32), "b": np.int32(step)}}


def test_a_checkpoint_that_was_half_deleted_is_passed_over_and_goes_on_resume(half_deleted):
    with CheckpointStore(half_deleted, keep=2) as store:
        assert store.best() == 4
        assert store.restore(small(0), warn=pytest.fail).step == 4
        assert store.steps() == [3, 4]
    assert [path.name for path in half_deleted.parent.iterdir()] == ["checkpoints"]


def test_an_old_checkpoint_that_is_the_best_outlives_a_resume(folder):
    with CheckpointStore(folder, keep=2) as store:
        for step, loss in [(1, 1.0), (2, 3.0), (3, 2.0), (4, 2.5)]:
            store.save(step, small(step), loss=loss)
    with CheckpointStore(folder, keep=2) as store:
        assert store.restore(small(0), warn=pytest.fail).step == 4
    assert store.steps() == [1, 3, 4]


def test_a_reader_who_wants_the_best_is_told_of_one_that_was_half_deleted(half_deleted):
    warnings = []
    with CheckpointStore(half_deleted, writable=False) as store:
        assert store.restore(small(0), warn=warnings.append, choice="best").step == 4
    assert [words.split(":")[0] for words in warnings] == ["checkpoint 1 is damaged and was skipped"]


def test_a_checkpoint_that_was_half_deleted_goes_with_the_next_save(half_deleted):
    with CheckpointStore(half_deleted, keep=2) as store:
        store.save(5, small(5), loss=0.75)
    assert store.steps() == [4, 5]


@pytest.mark.parametrize("way", ["moved", "removed"])
def test_a_folder_that_is_lost_during_a_save_is_not_made_anew(folder, way):
    def lose():
        if lost and way == "moved":
            folder.parent.rename(folder.parent.with_name("elsewhere"))
        elif lost:
            shutil.rmtree(folder.parent)

    lost = False
    with CheckpointStore(folder, before_commit=lose) as store:
        store.save(1, small(1))
        store.wait()
        lost = True
        store.save(2, small(2))
        with pytest.raises(WorkError, match="is gone, removed or moved while the run was writing to it; nothing was"):
            store.wait()
        with pytest.raises(WorkError, match="is gone"):
            store.save(3, small(3))
    assert not folder.parent.exists()


def test_a_full_disk_is_one_message_and_spares_what_was_saved(folder):
    done = subprocess.run([sys.executable, "-c", FULL_DISK, folder], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    failed = [line.split(" to ")[0] for line in done.stdout.splitlines()]
    assert failed == [f"checkpoint {step} was not written" for step in (2, 3, 5)]
    assert done.stdout.count("File too large") == 3
    assert sorted(path.name for path in folder.iterdir()) == ["1", "4"]
    assert newest(folder, writable=False)[0].step == 4
