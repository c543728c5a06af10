"""Run directories: made only where nothing lies, opened only where one lies, held by one process."""

from __future__ import annotations

import dataclasses
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jaxgpt.config import RequestError
from jaxgpt.runs import directory
from jaxgpt.runs.directory import RunDirectory, fresh_run_path, is_run

HOLD = """
import sys, time
from pathlib import Path
from jaxgpt.runs.directory import RunDirectory
with RunDirectory.open(Path(sys.argv[1])).lock():
    print("held", flush=True)
    time.sleep(60)
"""

# Dies where the temporary file is complete and its rename is yet to come.
KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
from jaxgpt.config import ModelConfig, RunConfig
from jaxgpt.runs.directory import RunDirectory
from jaxgpt.runs.manifest import Manifest
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
RunDirectory.create(Path(sys.argv[1]), Manifest(config=RunConfig(model=ModelConfig(vocab_size=3))))
"""


@pytest.fixture
def run(tmp_path, manifest):
    return RunDirectory.create(tmp_path / "run", manifest)


@pytest.fixture
def holder(run):
    """A second process that holds the run's lock."""
    child = subprocess.Popen([sys.executable, "-c", HOLD, run.path], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "held\n"
    yield child
    child.kill()
    child.wait()
    child.stdout.close()


def test_a_run_is_made_and_opened(tmp_path, manifest):
    path = tmp_path / "deep" / "run"
    assert not is_run(path)
    assert RunDirectory.open(RunDirectory.create(path, manifest).path).manifest == manifest
    assert is_run(path)


def test_an_empty_folder_may_become_a_run(tmp_path, manifest):
    assert RunDirectory.create(tmp_path, manifest).path == tmp_path


def test_the_paths_are_those_of_the_layout(run):
    assert run.checkpoints_path == run.path / "checkpoints"
    assert run.metrics_path == run.path / "metrics.jsonl"
    assert run.tensorboard_path == run.path / "tensorboard"


def test_a_folder_that_holds_something_is_left_alone(tmp_path, manifest):
    for name in "abcde":
        (tmp_path / name).touch()
    with pytest.raises(RequestError, match=r"holds something else \(a, b, c and 2 more\)"):
        RunDirectory.create(tmp_path, manifest)
    assert sorted(os.listdir(tmp_path)) == list("abcde")


def test_a_run_is_not_made_over_a_run(run, manifest):
    with pytest.raises(RequestError, match=r"holds something else \(manifest\.json\)"):
        RunDirectory.create(run.path, manifest)


def test_of_two_that_make_a_run_in_one_folder_the_later_is_refused_and_writes_nothing(
    tmp_path, manifest, monkeypatch
):
    look = directory._refuse_contents

    def look_while_another_makes_its_run(path):
        look(path)
        monkeypatch.setattr(directory, "_refuse_contents", look)
        RunDirectory.create(path, manifest)

    monkeypatch.setattr(directory, "_refuse_contents", look_while_another_makes_its_run)
    with pytest.raises(RequestError, match=r"holds something else \(manifest\.json\)"):
        RunDirectory.create(tmp_path / "run", dataclasses.replace(manifest, command="the later"))
    assert RunDirectory.open(tmp_path / "run").manifest == manifest


def test_a_run_is_made_under_its_lock(tmp_path, manifest, monkeypatch):
    def write_while_another_tries(_, path):
        with pytest.raises(RequestError, match=f"process {os.getpid()} is training into"):
            RunDirectory.create(path, manifest)

    monkeypatch.setattr(directory.Manifest, "write", write_while_another_tries)
    RunDirectory.create(tmp_path / "run", manifest)


def test_a_file_is_no_place_for_a_run(tmp_path, manifest):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(RequestError, match="cannot make a run directory at"):
            RunDirectory.create(path, manifest)


def test_what_was_found_instead_of_a_run_is_named(tmp_path):
    (tmp_path / "config.json").touch()
    with pytest.raises(RequestError, match=r"it holds config\.json"):
        RunDirectory.open(tmp_path)
    with pytest.raises(RequestError, match="does not exist"):
        RunDirectory.open(tmp_path / "none")
    with pytest.raises(RequestError, match="is a file"):
        RunDirectory.open(tmp_path / "config.json")


def test_each_fresh_path_is_new(tmp_path):
    paths = [fresh_run_path(tmp_path / "runs", "char") for _ in range(3)]
    assert len(set(paths)) == 3
    assert all(path.name.startswith("char-2") and path.is_dir() for path in paths)


def test_runs_of_one_second_are_numbered(tmp_path, monkeypatch):
    class Clock(directory.datetime.datetime):
        @classmethod
        def now(cls):
            return cls(2026, 1, 2, 3, 4, 5)

    monkeypatch.setattr(directory.datetime, "datetime", Clock)
    names = [fresh_run_path(tmp_path, "char").name for _ in range(3)]
    assert names == ["char-20260102-030405", "char-20260102-030405-2", "char-20260102-030405-3"]


def test_a_fresh_path_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RequestError, match="cannot make"):
        fresh_run_path(tmp_path / "file", "char")


def test_a_second_process_is_refused_and_told_which_one_trains(run, holder):
    with pytest.raises(RequestError, match=f"process {holder.pid} is training into"), run.lock():
        pass


def test_the_lock_of_a_killed_process_blocks_nobody(run, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (run.path / "lock").read_text() == f"{holder.pid}\n"
    with run.lock():
        assert (run.path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_process_killed_while_it_made_the_run_is_in_nobodys_way(tmp_path, manifest):
    path = tmp_path / "run"
    killed = subprocess.run([sys.executable, "-c", KILLED_WHILE_WRITING, path])
    assert killed.returncode == -signal.SIGKILL
    (leftover,) = (entry.name for entry in path.iterdir() if entry.name != "lock")
    assert leftover.startswith(".manifest.json.")
    assert RunDirectory.create(path, manifest).manifest == manifest
    assert sorted(entry.name for entry in path.iterdir()) == ["lock", "manifest.json"]


def test_who_takes_the_lock_removes_what_was_left_half_written_and_nothing_else(run):
    names = [".metrics.jsonl.4711", ".samples.jsonl.1", ".wandb-id.txt.2", ".notes.3", ".metrics.jsonl.swp"]
    for name in names:
        (run.path / name).touch()
    with run.lock():
        assert {entry.name for entry in run.path.iterdir()} == {"lock", "manifest.json", *names[3:]}


def test_a_hidden_file_of_somebody_else_is_no_leftover(tmp_path, manifest):
    (tmp_path / ".notes.3").touch()
    with pytest.raises(RequestError, match=r"holds something else \(\.notes\.3\)"):
        RunDirectory.create(tmp_path, manifest)


@pytest.mark.parametrize("name", [".", "checkpoints"])
def test_a_folder_that_cannot_be_written_is_refused_when_the_lock_is_taken(run, monkeypatch, name):
    run.checkpoints_path.mkdir()
    there = {path: sorted(path.rglob("*")) for path in (run.path, run.checkpoints_path)}

    def refuse(folder):
        if folder == run.path / name:
            raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(directory, "check_writable", refuse)
    with pytest.raises(RequestError, match=r"cannot write to .*: Permission denied; make the folder"), run.lock():
        pass
    assert {path: sorted(path.rglob("*")) for path in there} == there


def test_a_lock_is_free_again_after_its_block(run):
    for _ in range(2):
        with run.lock():
            pass


def test_a_lock_that_cannot_be_made_is_one_message(run):
    (run.path / "lock").unlink()
    (run.path / "lock").mkdir()
    with pytest.raises(RequestError, match=r"cannot write to .*: Is a directory"), run.lock():
        pass


def test_a_relative_path_works(run, monkeypatch):
    monkeypatch.chdir(run.path.parent)
    assert RunDirectory.open(Path("run")).manifest == run.manifest
