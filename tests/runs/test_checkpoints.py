"""Checkpoints: every bit comes back, items come back alone, and a wrong request moves nothing."""

from __future__ import annotations

import errno
import json
import logging
import os
import threading

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from jaxgpt.config import RequestError, WorkError
from jaxgpt.runs import checkpoints
from jaxgpt.runs.checkpoints import CheckpointStore
from jaxgpt.runs.record import make_record


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run" / "checkpoints"


@pytest.fixture
def store(folder):
    with CheckpointStore(folder, keep=3) as store:
        yield store


def test_a_training_state_survives_bitwise(store, state, same):
    store.save(7, state(7))
    restored = store.restore(state(0), warn=pytest.fail)
    assert restored.step == 7
    assert same(restored.items, state(7))
    assert isinstance(restored.items["optimizer"][1][0], optax.ScaleByAdamState)


shapes = hnp.array_shapes(min_dims=0, max_dims=3, max_side=4)
halves = hnp.arrays("uint16", shapes).map(lambda bits: bits.view(jnp.bfloat16))
arrays = hnp.arrays(st.sampled_from(["float32", "int32", "uint32", "bool"]), shapes) | halves


@settings(deadline=None, max_examples=15)
@given(st.dictionaries(st.sampled_from(["scale", "q", "0"]), arrays, min_size=1))
def test_any_arrays_survive_bitwise(tmp_path_factory, same, tree):
    with CheckpointStore(tmp_path_factory.mktemp("run") / "checkpoints") as store:
        store.save(0, {"params": tree})
        templates = {"params": jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), tree)}
        restored = store.restore(templates, warn=pytest.fail)
    assert same(restored.items["params"], tree)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(restored.items))


def test_parameters_are_restored_alone(store, state, same):
    store.save(1, state(1))
    for path in (store._directory / "1" / "optimizer").rglob("*"):
        if path.is_file():
            path.write_bytes(b"")
    restored = store.restore({"params": state(0)["params"]}, warn=pytest.fail)
    assert same(restored.items, {"params": state(1)["params"]})


def test_an_item_without_arrays_survives(store, same):
    items = {"params": {"w": jnp.ones(2)}, "optimizer": optax.sgd(1e-3).init({"w": jnp.ones(2)})}
    store.save(1, items)
    assert same(store.restore(items, warn=pytest.fail).items, items)


@pytest.fixture
def writer_may_go_on(monkeypatch):
    """An event without which the thread that writes does not even begin to hash."""
    event = threading.Event()

    def held_back(*arguments):
        assert event.wait(timeout=60)
        return make_record(*arguments)

    monkeypatch.setattr(checkpoints, "make_record", held_back)
    yield event
    event.set()


def test_a_save_returns_with_the_arrays_copied_and_nothing_hashed_or_written(store, folder, writer_may_go_on):
    array = np.ones(200_000, np.float32)
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    donated = jnp.zeros(200_000)
    store.save(1, {"params": {"numpy": array, "jax": donated}})
    array[:] = 2
    step(donated).block_until_ready()
    assert list(folder.iterdir()) == []
    writer_may_go_on.set()
    params = store.restore({"params": {"numpy": array, "jax": jnp.zeros(200_000)}}, warn=pytest.fail).items["params"]
    assert params["numpy"].max() == 1
    assert params["jax"].max() == 0


def test_the_newest_checkpoints_are_kept_also_after_reopening(folder, state):
    for steps in ([1, 2], [3, 4, 10]):
        with CheckpointStore(folder, keep=3) as store:
            for step in steps:
                store.save(step, {"params": state(step)["params"]})
    assert CheckpointStore(folder, writable=False).steps() == [3, 4, 10]


def test_of_the_newest_and_the_best_each_is_kept_also_after_reopening(folder, state):
    losses = {1: 2.5, 2: 1.5, 3: 2.0, 4: None, 5: 1.75, 6: float("nan"), 7: 1.5}
    kept = []
    for step, loss in losses.items():
        with CheckpointStore(folder, keep=2) as store:
            store.save(step, {"params": state(step)["params"]}, loss=loss)
        kept.append(store.steps())
    assert kept == [[1], [1, 2], [2, 3], [2, 3, 4], [2, 4, 5], [2, 5, 6], [2, 6, 7]]
    assert (store.best(), store.losses()) == (2, {2: 1.5, 7: 1.5})


def test_the_best_is_dropped_once_a_better_one_is_committed(store, state):
    for step, loss in [(1, 3.0), (2, 4.0), (3, 4.0), (4, 4.0), (5, 2.0)]:
        store.save(step, {"params": state(step)["params"]}, loss=loss)
        assert store.best() == (5 if step == 5 else 1)
    store.wait()
    assert store.steps() == [3, 4, 5]


def test_any_checkpoint_is_restored_by_its_step_and_the_best_by_name(store, state, same):
    for step, loss in [(1, 3.0), (2, 1.0), (3, 2.0)]:
        store.save(step, {"params": state(step)["params"]}, loss=loss)
    template = {"params": state(0)["params"]}
    for choice, step in [("last", 3), ("best", 2), (1, 1)]:
        restored = store.restore(template, warn=pytest.fail, choice=choice)
        assert restored.step == step
        assert same(restored.items["params"], state(step)["params"])
    with pytest.raises(RequestError, match=r"there is no checkpoint 4 in .*; name one that it holds: 1, 2, 3"):
        store.restore(template, warn=pytest.fail, choice=4)


def test_without_a_validation_loss_there_is_no_best(store, state):
    store.save(3, {"params": state(3)["params"]})
    with pytest.raises(RequestError, match=r"no checkpoint in .* has a validation loss .* of the steps 3"):
        store.restore({"params": state(0)["params"]}, warn=pytest.fail, choice="best")
    assert store.best() is None


def test_what_is_to_happen_before_the_commit_does_and_its_error_is_that_of_the_save(folder, state):
    seen, errors = [], [None, OSError(errno.ENOSPC, "No space left on device"), None]

    def hook():
        seen.append(store.steps())
        if errors[len(seen) - 1]:
            raise errors[len(seen) - 1]

    with CheckpointStore(folder, before_commit=hook) as store:
        store.save(1, {"params": state(1)["params"]}, loss=2.0)
        store.save(2, {"params": state(2)["params"]}, loss=1.0)
        message = r"checkpoint 2 was not written to .*: \[Errno 28\] No space left on device; earlier checkpoints are"
        with pytest.raises(WorkError, match=message):
            store.save(3, {"params": state(3)["params"]})
        assert (store.steps(), store.best()) == ([1], 1)
        store.save(3, {"params": state(3)["params"]})
    assert seen == [[], [1], [1]]
    assert store.steps() == [1, 3]


def test_what_a_checkpoint_consists_of_is_on_disk_before_it_counts(store, folder, state, monkeypatch):
    synced = set()
    sync = os.fsync

    def note(descriptor):
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    store.save(1, state(1))
    store.wait()
    final = [path.relative_to(folder / "1") for path in (folder / "1").rglob("*")]
    before = {str(folder / "1.orbax-checkpoint-tmp" / path) for path in final if path.name != "commit_success.txt"}
    assert len(before) > 15
    assert before | {str(folder / "1"), str(folder / "1/commit_success.txt"), str(folder)} <= synced


def test_a_step_is_not_saved_twice(store, state, same):
    store.save(1, state(1))
    with pytest.raises(WorkError, match=r"checkpoint 1 is already in .* none is overwritten"):
        store.save(1, state(2))
    assert same(store.restore(state(0), warn=pytest.fail).items, state(1))
    store.save(2, state(2))
    store.wait()
    assert store.steps() == [1, 2]


def test_the_record_lies_in_the_commit_in_plain_json(store, folder):
    array = jnp.arange(3, dtype=jnp.int32)
    store.save(1, {"params": {"ids": array}})
    store.wait()
    record = json.loads((folder / "1" / "record" / "metadata").read_text())
    assert record["items"]["params"]["ids"]["dtype"] == "int32"
    assert record["items"]["params"]["ids"]["shape"] == [3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p | {"w": jnp.ones((2, 4))}, r"w is float32\[2,3\], expected float32\[2,4\]"),
        (lambda p: p | {"w": jnp.ones((2, 3), jnp.bfloat16)}, r"w is float32\[2,3\], expected bfloat16\[2,3\]"),
        (lambda p: p | {"bias": jnp.ones(3)}, "missing: bias"),
        (lambda p: {}, "surplus: w"),
    ],
)
def test_another_structure_is_refused_and_nothing_is_moved(store, folder, change, message):
    params = {"w": jnp.ones((2, 3))}
    store.save(1, {"params": params})
    with pytest.raises(RequestError, match=f"checkpoint 1 .* sound but of another structure: in params, {message}"):
        store.restore({"params": change(params)}, warn=pytest.fail)
    assert store.steps() == [1]
    assert not (folder.parent / "damaged").exists()


def test_an_item_that_was_not_saved_is_named(store):
    store.save(1, {"params": {"w": jnp.ones(2)}})
    with pytest.raises(RequestError, match="holds params, no 'optimizer'"):
        store.restore({"optimizer": {"w": jnp.ones(2)}}, warn=pytest.fail)


def test_a_64_bit_number_is_not_narrowed_in_silence(store):
    store.save(1, {"counters": {"seen": np.int64(2**40)}})
    with pytest.raises(RequestError, match="seen is int64; give a NumPy template"):
        store.restore({"counters": {"seen": jax.ShapeDtypeStruct((), "int64")}}, warn=pytest.fail)
    restored = store.restore({"counters": {"seen": np.int64(0)}}, warn=pytest.fail)
    assert restored.items["counters"]["seen"] == 2**40


def test_an_empty_store_says_so(store, folder):
    with pytest.raises(WorkError, match="nothing was saved there yet"):
        store.restore({"params": {}}, warn=pytest.fail)
    assert CheckpointStore(folder / "none", writable=False).steps() == []
    assert not (folder / "none").exists()


def test_arrays_follow_the_sharding_of_the_template(store):
    """On whatever devices there are; run with 8 to see arrays really spread and gathered."""
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    spread = NamedSharding(mesh, PartitionSpec("data"))
    template = {"w": jax.ShapeDtypeStruct((8,), "float32", sharding=spread), "b": jnp.zeros(2)}
    store.save(1, {"params": {"w": jax.device_put(jnp.arange(8.0), spread), "b": jnp.ones(2)}})
    params = store.restore({"params": template}, warn=pytest.fail).items["params"]
    assert params["w"].sharding == spread
    assert isinstance(params["b"].sharding, SingleDeviceSharding)
    gathered = store.restore({"params": {"w": jnp.zeros(8), "b": jnp.zeros(2)}}, warn=pytest.fail).items["params"]
    assert isinstance(gathered["w"].sharding, SingleDeviceSharding)
    assert params["w"].tolist() == gathered["w"].tolist() == list(range(8))


def test_a_restored_state_does_not_compile_again(store):
    compiled = []

    @jax.jit
    def step(x):
        compiled.append(x.shape)
        return x + 1

    before = step(jnp.zeros(3))
    store.save(1, {"params": {"w": before}})
    step(store.restore({"params": {"w": before}}, warn=pytest.fail).items["params"]["w"])
    assert len(compiled) == 1
    assert step._cache_size() == 1


def test_orbax_is_quiet_while_a_store_is_open_and_only_then(folder, state, capfd):
    heard = []
    listener = logging.Handler(level=0)
    listener.emit = heard.append
    logger = logging.getLogger("absl")
    before, level = list(logger.filters), logger.level
    logger.addHandler(listener)
    logger.setLevel(logging.DEBUG)
    try:
        with CheckpointStore(folder) as store, CheckpointStore(folder, writable=False) as reader:
            store.save(1, state(1))
            store.wait()
            reader.restore(state(0), warn=pytest.fail)
            logger.info("another library's line")
    finally:
        logger.removeHandler(listener)
        logger.setLevel(level)
    assert [record.getMessage() for record in heard] == ["another library's line"]
    assert logger.filters == before
    assert capfd.readouterr().out == ""
