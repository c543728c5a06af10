"""A save that fails once costs one checkpoint, not the run."""

import errno

import numpy as np
import pytest

from jaxgpt.config import WorkError
from jaxgpt.runs import checkpoints
from jaxgpt.runs.checkpoints import CheckpointStore
from jaxgpt.training.saver import Saver


@pytest.fixture
def store(tmp_path):
    with CheckpointStore(tmp_path / "checkpoints") as opened:
        yield opened


@pytest.fixture
def full_disk(monkeypatch):
    """Return a set of times: the first save is 1, and those in the set find the disk full."""
    real, calls, bad = checkpoints.make_record, [], set()

    def make_record(*arguments):
        calls.append(arguments)
        if len(calls) in bad:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments)

    monkeypatch.setattr(checkpoints, "make_record", make_record)
    return bad


def items(step):
    return {"params": {"w": np.full(3, step, np.float32)}}


def saved(store, step):
    return store.restore(items(0), warn=pytest.fail, choice=step).items["params"]["w"][0]


def test_one_failed_save_is_a_warning_and_the_state_after_it_is_saved(store, full_disk, capsys):
    full_disk |= {1, 3}  # never two in a row
    saver = Saver(store, 0)
    for step in (1, 2, 3):
        saver.save(step, items(step), None)
    saver.save_for_good(4, items(4), 2.5)
    assert (store.steps(), store.losses()) == ([2, 4], {4: 2.5})
    assert [saved(store, step) for step in (2, 4)] == [2, 4]
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("jaxgpt: warning: checkpoint 1 was not written to ")
    assert first.endswith("free space or fix the folder; the present state is saved instead")
    assert second.startswith("jaxgpt: warning: checkpoint 3 was not written to ")


def test_two_failed_saves_in_a_row_are_an_error(store, full_disk):
    full_disk |= {2, 3}
    saver = Saver(store, 0)
    for step in (1, 2, 3):
        saver.save(step, items(step), None)
    with pytest.raises(WorkError, match=r"checkpoint 3 .*No space left.*free space.*, then continue the run$"):
        saver.save(4, items(4), None)
    assert store.steps() == [1]


def test_the_last_save_is_tried_once_more(store, full_disk):
    full_disk |= {1, 3, 4}
    saver = Saver(store, 0)
    saver.save(5, items(5), 3.0)
    saver.save_for_good(5, items(5), 3.0)
    assert (store.steps(), store.losses()) == ([5], {5: 3.0})
    with pytest.raises(WorkError, match=r"checkpoint 6 was not written"):
        saver.save_for_good(6, items(6), None)
    assert store.steps() == [5]


def test_a_step_that_is_saved_is_not_saved_again(store):
    store.save(3, items(3))
    store.wait()
    saver = Saver(store, 3)
    for step in (3, 4, 4):
        saver.save_for_good(step, items(step), None)
    assert store.steps() == [3, 4]
