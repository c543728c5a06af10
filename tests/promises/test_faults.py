"""Faults of whole runs, each really done to a process: one message, the right exit code, and nothing lost.

Kills are in `test_kills.py`; SIGTERM and SIGINT, which save first, in `tests/training/test_run.py`.
"""

import contextlib
import os
import shutil
import signal
import stat
from pathlib import Path

import pytest
from whole_runs import SETTINGS, Traces, Workshop, committed, logged

pytestmark = pytest.mark.ci  # two dozen processes that import JAX

SHORT = SETTINGS | {
    "train.steps": 24,
    "train.eval_batches": 4,
    "optimizer.warmup_steps": 5,
    "train.keep_checkpoints": 2,
}
SAVES = SHORT["train.save_every"]
BEST = SHORT["train.eval_every"]  # the first evaluation's step, saved as the best so far


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    return Workshop(tmp_path_factory.mktemp("workshop"), SHORT)


@pytest.fixture(scope="module")
def whole(workshop):
    return Traces.of_whole(workshop, "whole")[0]


@pytest.fixture(scope="module")
def paused(workshop, whole):
    """A run that was paused after its second checkpoint; copied, not continued itself."""
    child = workshop.start("paused", settings={"train.stop_after": 2 * SAVES})
    assert child.ended() == 0, child.words()
    return workshop.run_path("paused")


def refused(child, code, *, warned_of=""):
    """Return the one message that a child ended with, after the one warning of what was expected."""
    assert child.ended() == code, child.words()
    *warnings, message = child.err.read_text().splitlines()
    assert len(warnings) == bool(warned_of), warnings
    assert all(line.startswith(f"jaxgpt: warning: {warned_of}") for line in warnings), warnings
    assert message.startswith("jaxgpt: "), message
    return message


def continued(workshop, name, whole, *, besides=(), prelude=""):
    """Continue a run to its end, compare it with the whole one, and return what the child wrote to standard error."""
    child = workshop.start(name, prelude=prelude)
    assert child.ended() == 0, child.words()
    Traces.of(workshop.run_path(name)).check_same(whole, besides=besides)
    return child.err.read_text()


# From a step on, no file may grow beyond a limit; what was being saved by then is on disk.
FULL_FROM = """
import os, resource, time
from {module} import {owner}
def fill(self, step, *arguments, _real={owner}.{method}, **options):
    if step >= {step}:
        while not os.path.isdir("runs/{run}/checkpoints/{saved}"):
            time.sleep(0.001)
        resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    return _real(self, step, *arguments, **options)
{owner}.{method} = fill
"""


@pytest.mark.parametrize(
    ("patched", "step", "limit", "warned_of", "words"),
    [
        (
            "jaxgpt.runs.checkpoints CheckpointStore save",
            2 * SAVES,
            30_000,
            f"checkpoint {2 * SAVES} was not",
            "was not written",
        ),
        ("jaxgpt.runs.metrics MetricsLog write", 12, 1500, "", "cannot write"),
    ],
    ids=["during a save", "during metrics"],
)
def test_a_disk_that_fills_up_costs_no_more_than_the_steps_since_a_checkpoint(
    workshop, whole, patched, step, limit, warned_of, words
):
    names = dict(zip(("module", "owner", "method"), patched.split(), strict=True))
    run = names["method"]
    prelude = FULL_FROM.format(**names, step=step, limit=limit, run=run, saved=BEST)
    message = refused(workshop.start(run, prelude=prelude, silent=True), 1, warned_of=warned_of)
    assert words in message
    assert "File too large" in message
    assert "free space" in message
    assert committed(workshop.run_path(run)) == BEST
    assert continued(workshop, run, whole) == ""


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize(
    "damage",
    [lambda path: os.truncate(path, path.stat().st_size // 2), flip, Path.unlink],
    ids=["truncated", "a bit flipped", "removed"],
)
def test_damage_to_a_checkpoint_and_a_torn_log_are_mended_by_the_checkpoint_before(
    workshop, whole, paused, damage, request
):
    run = workshop.run_path(request.node.callspec.id)
    shutil.copytree(paused, run)
    newest = run / "checkpoints" / str(2 * SAVES)
    damage(max((p for p in newest.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size))
    with (run / "metrics.jsonl").open("a") as log:
        log.write('{"step": 15, "loss": 9.0}\n{"step": 16, "lo')
    warning = continued(workshop, run.name, whole, besides=["damaged"])
    assert warning.startswith(f"jaxgpt: warning: checkpoint {2 * SAVES} is damaged and was skipped: ")
    assert (run / "damaged" / str(2 * SAVES)).is_dir()


# Dies where a checkpoint is complete and does not count yet.
KILLED_IN_A_SAVE = """
import os, signal
from jaxgpt.runs import orbax_options
def die(_): os.kill(os.getpid(), signal.SIGKILL)
orbax_options._SyncedPath.finalize = die
"""

# Dies after the first file of the first checkpoint that is to go.
KILLED_IN_A_DELETION = """
import os, pathlib, shutil, signal
def rmtree(path, *arguments, _real=shutil.rmtree, **options):
    if pathlib.Path(path).parent.name == "checkpoints" and pathlib.Path(path).name.isdecimal():
        os.unlink(next(found for found in sorted(pathlib.Path(path).rglob("*")) if found.is_file()))
        os.kill(os.getpid(), signal.SIGKILL)
    return _real(path, *arguments, **options)
shutil.rmtree = rmtree
"""


@pytest.mark.parametrize(
    ("prelude", "warning"),
    [
        (KILLED_IN_A_SAVE, f"jaxgpt: warning: checkpoint {SAVES} was never finished; its leftover was removed\n"),
        (KILLED_IN_A_DELETION, ""),
    ],
    ids=["the first save", "the first deletion"],
)
def test_a_kill_inside_leaves_nothing_that_the_next_start_does_not_clear_away(
    workshop, whole, prelude, warning, request
):
    run = workshop.run_path(request.node.callspec.id.replace(" ", "-"))
    child = workshop.start(run.name, prelude=prelude)
    assert child.ended() == -signal.SIGKILL, child.words()
    assert any(run.glob("checkpoints/*"))
    assert continued(workshop, run.name, whole) == warning


def test_a_second_process_on_a_run_is_refused_and_the_first_unharmed(workshop, whole):
    first = workshop.start("shared")
    assert first.wait_for(lambda: len(logged(workshop.run_path("shared"))) > 3), first.words()
    first.process.send_signal(signal.SIGSTOP)
    try:
        message = refused(workshop.start("shared"), 2)
    finally:
        first.process.send_signal(signal.SIGCONT)
    assert f"process {first.process.pid} is training into {workshop.run_path('shared')}" in message
    assert first.ended() == 0, first.words()
    Traces.of(workshop.run_path("shared")).check_same(whole)


@pytest.mark.parametrize("way", ["removed", "moved"])
def test_a_run_directory_that_vanishes_ends_the_run_and_nothing_takes_its_place(workshop, whole, way):
    run = workshop.run_path(f"gone-{way}")
    child = workshop.start(run.name, settings={"train.steps": 5000})
    assert child.wait_for(lambda: len(logged(run)) > 8), child.words()
    if way == "moved":
        run.rename(run.with_name("elsewhere"))
    else:
        while run.exists():  # the run may write while it is removed
            shutil.rmtree(run, ignore_errors=True)
    before = {path.name for path in workshop.folder.iterdir()}
    assert str(run) in refused(child, 1)
    assert not run.exists()
    assert {path.name for path in workshop.folder.iterdir()} == before


# Root may write anywhere; a process without this capability may not, whoever runs it.
WITHOUT_OVERRIDE = """
import ctypes, os
if os.geteuid() == 0:
    libc, version, CAP_DAC_OVERRIDE = ctypes.CDLL(None, use_errno=True), 0x20080522, 1
    head, sets = (ctypes.c_uint32 * 2)(version, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(head, sets) == 0
    for i in range(3):  # effective, permitted, inheritable
        sets[i] &= ~(1 << CAP_DAC_OVERRIDE)
    assert libc.capset(head, sets) == 0
"""


@contextlib.contextmanager
def read_only(path):
    mode = stat.S_IMODE(path.stat().st_mode)
    path.chmod(0o555)
    yield
    path.chmod(mode)


def test_a_folder_that_may_not_be_written_is_refused_before_training(workshop, paused):
    with read_only(paused):
        message = refused(workshop.start("paused", prelude=WITHOUT_OVERRIDE), 2)
    assert f"cannot write to {paused}: Permission denied; make the folder writable" in message
    with read_only(workshop.folder / "runs"):
        message = refused(workshop.start("new", prelude=WITHOUT_OVERRIDE), 2)
    assert f"cannot make a run directory at {workshop.run_path('new')}: Permission denied" in message


def test_a_folder_that_becomes_read_only_ends_the_run_with_what_was_saved(workshop, whole):
    run = workshop.run_path("read-only")
    child = workshop.start(run.name, prelude=WITHOUT_OVERRIDE)
    assert child.wait_for((run / "checkpoints" / str(SAVES)).is_dir), child.words()
    with read_only(run / "checkpoints"):
        message = refused(child, 1, warned_of="checkpoint ")
    assert "was not written" in message
    assert "Permission denied" in message
    assert continued(workshop, run.name, whole, prelude=WITHOUT_OVERRIDE) == ""


HOUR_BACK = """
import os, time
def back(_real=time.time): return _real() - 3600 * os.path.exists({flag!r})
def back_ns(_real=time.time_ns): return _real() - 3600 * 10**9 * os.path.exists({flag!r})
time.time, time.time_ns = back, back_ns
"""


def test_a_clock_that_jumps_back_an_hour_changes_nothing(workshop, whole):
    run, flag = workshop.run_path("clock"), workshop.folder / "flag"
    prelude = HOUR_BACK.format(flag=str(flag))
    child = workshop.start(run.name, prelude=prelude)
    assert child.wait_for(lambda: len(logged(run)) > 5), child.words()
    flag.touch()
    assert child.wait_for(lambda: len(logged(run)) > 16), child.words()
    child.process.terminate()
    assert child.ended() == 143, child.words()
    (first,) = (run / "tensorboard").iterdir()
    stopped = committed(run)
    child = workshop.start(run.name, prelude=prelude)
    assert child.ended() == 0, child.words()
    assert f"continuing {run} after step {stopped}" in child.words()
    traces = Traces.of(run)  # the stop saved a step of its own, so the steps on disk differ
    assert (traces.hashes, traces.lines) == (whole.hashes, whole.lines)
    assert sorted((run / "tensorboard").iterdir())[0] == first  # TensorBoard reads the files in this order
    assert len(list((run / "tensorboard").iterdir())) == 2
