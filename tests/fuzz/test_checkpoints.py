"""Spoilt folders of checkpoints: the numbers that were saved at the step that is named, bit for bit, or one message.

Accepted silently would be: other numbers, the numbers of another step, a newer checkpoint that is passed over without
a word.
"""

from __future__ import annotations

import shutil

import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
from fuzzing import CHANGES, fuzz, fuzzed, one_message, spoilt

from jaxgpt.config import JaxgptError
from jaxgpt.runs.checkpoints import CheckpointStore
from jaxgpt.runs.step_folders import saved_steps

STEPS = (1, 2)


def state(step):
    noise = np.random.default_rng(step).normal(size=(30, 20)).astype(np.float32)
    return {
        "params": {"w": noise, "b": np.full(5, step, jnp.bfloat16)},
        "optimizer": {"mu": noise * 2, "count": np.int32(step)},
    }


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "checkpoints"
    with CheckpointStore(folder) as store:
        for step in STEPS:
            store.save(step, state(step))
    return folder


def entry(folder, share, *, files=True):
    """A file below the folder, or a file or folder, as a share of all of them says."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() or not files)
    return paths[int(share * len(paths))] if paths else None


def spoil(folder, action, share, other, changes):
    """Do one thing to the folder."""
    one, two = entry(folder, share, files=action == "change"), entry(folder, other, files=action == "change")
    if one is None:
        return
    if action == "change":
        one.write_bytes(spoilt(one.read_bytes(), changes))
    elif action == "remove":
        shutil.rmtree(one) if one.is_dir() else one.unlink()
    elif action == "duplicate" and one.is_file() and two.is_file():
        two.write_bytes(one.read_bytes())
    elif action == "copy a step":
        copy_step(folder / str(1 + round(share)), folder / str(round(9 * other)))
    elif action == "rename" and not one.with_name("3").exists():
        one.rename(one.with_name("3"))


def copy_step(source, target):
    """Let a checkpoint stand under another step too, or in the place of another."""
    if source.is_dir() and source != target:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)


@fuzzed
def test_a_spoilt_folder_gives_the_saved_numbers_or_one_message(sound, tmp_path, examples):
    folder = tmp_path / "run" / "checkpoints"

    def check(actions, writable):
        shutil.rmtree(folder.parent, ignore_errors=True)
        shutil.copytree(sound, folder)
        for action in actions:
            spoil(folder, *action)
        newest, warnings = max(saved_steps(folder), default=0), []
        try:
            with CheckpointStore(folder, writable=writable) as store:
                restored = store.restore(state(0), warn=warnings.append)
        except JaxgptError as error:
            one_message(error)
            return
        for item, arrays in state(restored.step).items():
            for name, array in arrays.items():
                assert restored.items[item][name].tobytes() == array.tobytes()
        assert restored.step in STEPS
        assert restored.step == newest or warnings

    kinds = st.sampled_from(["change", "change", "change", "remove", "duplicate", "copy a step", "rename"])
    share = st.floats(0, 1, exclude_max=True)
    actions = st.lists(st.tuples(kinds, share, share, CHANGES), min_size=1, max_size=3)
    fuzz(examples, check, actions, st.booleans())
