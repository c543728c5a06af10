"""Every window once per epoch, every step the same batch wherever it is asked, every evaluation token once."""

import contextlib
import itertools
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from jaxgpt.config import RequestError
from jaxgpt.data.batches import TrainingBatches, evaluation_batches
from jaxgpt.data.examples import Windows, count_evaluation_windows, count_windows
from jaxgpt.data.token_ids import check_token_ids

# Each window costs up to 3 ms where there are only a few (the shuffle is made for many), so examples are few too.
quick = settings(max_examples=20, deadline=None)


def row(tokens: int) -> np.ndarray:
    """Ids that say their own position."""
    return np.arange(tokens, dtype=np.int32)


def training(windows: int, batch_size: int, seed: int = 0, context_length: int = 4) -> TrainingBatches:
    examples = Windows(row(windows + context_length), context_length=context_length)
    return TrainingBatches(examples, batch_size=batch_size, seed=seed)


def evaluation(ids: np.ndarray, context_length: int, batch_size: int):
    return evaluation_batches(Windows(ids, context_length=context_length), batch_size=batch_size)


def same(left: dict, right: dict) -> bool:
    return left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)


def refusal(call, *arguments, **options) -> str:
    with pytest.raises(RequestError) as caught:
        call(*arguments, **options)
    return str(caught.value)


@quick
@given(st.integers(1, 300), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_every_window_appears_exactly_once_per_epoch(windows, batch_size, seed):
    batches = training(windows, batch_size, seed)
    steps = -(-2 * windows // batch_size)
    starts = np.concatenate([batches.examples_at(step) for step in range(steps)])
    for epoch in range(2):
        assert sorted(starts[epoch * windows : (epoch + 1) * windows]) == list(range(windows))


def test_each_epoch_and_each_seed_has_its_own_order():
    epochs = [tuple(training(50, 50, seed).examples_at(step)) for seed in range(4) for step in range(4)]
    assert len(set(epochs)) == 16


def test_a_batch_holds_the_tokens_of_its_windows_and_the_tokens_after_each():
    ids = np.random.default_rng(0).integers(0, 65, 200).astype(np.int32)
    batches = TrainingBatches(Windows(ids, context_length=16), batch_size=5, seed=3)
    batch = batches.batch_at(2)
    assert {name: (array.dtype.name, array.shape) for name, array in batch.items()} == {
        "token_ids_BT": ("int32", (5, 16)),
        "target_ids_BT": ("int32", (5, 16)),
        "weights_BT": ("float32", (5, 16)),
    }
    for b, start in enumerate(batches.examples_at(2)):
        assert batch["token_ids_BT"][b].tolist() == ids[start : start + 16].tolist()
        assert batch["target_ids_BT"][b].tolist() == ids[start + 1 : start + 17].tolist()
    assert (batch["weights_BT"] == 1).all()


@quick
@given(st.integers(1, 300), st.integers(1, 8), st.permutations(range(6)))
def test_a_step_is_the_same_batch_in_whatever_order_steps_are_asked(windows, batch_size, order):
    asked, fresh = training(windows, batch_size), training(windows, batch_size)
    shuffled = {step: asked.batch_at(step) for step in order}
    assert all(same(shuffled[step], fresh.batch_at(step)) for step in range(6))


@quick
@example(windows=300, batch_size=1, start_step=0)
@given(st.integers(1, 300), st.integers(1, 8), st.integers(0, 10**9))
def test_a_stream_from_any_step_gives_the_batches_of_those_steps(windows, batch_size, start_step):
    batches = training(windows, batch_size)
    with batches.stream(start_step) as stream:
        for step, batch in enumerate(itertools.islice(stream, 6), start_step):
            assert same(batch, batches.batch_at(step))


def prefetching_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("grain-prefetch")}


def test_a_stream_prepares_batches_in_a_thread_that_closing_ends():
    others = prefetching_threads()
    with contextlib.closing(training(40, 4).stream(0)) as stream:
        next(stream)
        [thread] = prefetching_threads() - others
    thread.join(timeout=5)
    assert not thread.is_alive()
    with pytest.raises(ValueError, match="closed"):
        next(stream)


# Golden: TrainingBatches(Windows(row(104), context_length=4), batch_size=8, seed=1337) at step 0 and at step 12,
# which crosses into the second epoch. A new release of grain may shuffle otherwise; runs begun with the old
# one could then not be continued exactly. Renew by printing them, and say so where the change is announced.
GOLDEN = "[73, 22, 91, 78, 7, 10, 44, 98] [47, 37, 32, 48, 29, 46, 26, 5]"

SCRIPT = """
import numpy as np
from jaxgpt.data.batches import TrainingBatches
from jaxgpt.data.examples import Windows
windows = Windows(np.arange(104, dtype=np.int32), context_length=4)
batches = TrainingBatches(windows, batch_size=8, seed=1337)
stream = batches.stream(12)
print(batches.examples_at(0).tolist(), next(stream)["token_ids_BT"][:, 0].tolist())
"""


def test_two_processes_draw_the_same_windows_and_end_without_closing_their_stream():
    def start(hash_seed: str) -> subprocess.Popen:
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", SCRIPT]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    for process in [start("1"), start("2")]:
        output, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
        assert output.strip() == GOLDEN


def test_tiny_shakespeare_has_1003790_training_windows_of_64():
    assert count_windows(1_003_854, 64, "the training split") == 1_003_790


def test_one_token_more_than_the_context_is_one_window():
    assert count_windows(65, 64, "the training split") == 1
    batch = training(1, 2, context_length=64).batch_at(5)
    assert batch["target_ids_BT"].tolist() == [list(range(1, 65))] * 2


@pytest.mark.parametrize("tokens", [64, 2])
def test_too_short_a_split_is_refused_with_both_numbers(tokens):
    message = refusal(Windows, row(tokens), context_length=64)
    assert f"the training split has {tokens} tokens, but model.context_length 64 needs at least 65" in message
    assert f"set model.context_length to at most {tokens - 1}, or give more text" in message


def test_a_shorter_context_is_not_advised_where_none_would_do():
    assert refusal(count_windows, 1, 64, "x").endswith("; give more text")


def test_steps_count_from_zero():
    batches = training(10, 2)
    for call in (batches.batch_at, batches.examples_at, batches.stream):
        assert "a step counts from 0, got -1" in refusal(call, -1)


def test_ids_of_another_type_or_shape_are_refused():
    for ids in (row(20).astype(np.int64), row(20).reshape(2, 10)):
        with pytest.raises(AssertionError):
            Windows(ids, context_length=4)


def test_tiny_shakespeare_validates_on_1742_windows_and_leaves_51_characters():
    assert count_evaluation_windows(111_540, 64) == (1742, 51)


@quick
@given(st.integers(2, 200), st.integers(1, 20), st.integers(1, 9))
def test_evaluation_predicts_each_token_once_in_order_and_pads_with_weight_zero(tokens, context, batch_size):
    assume(tokens > context)
    windows, leftover = count_evaluation_windows(tokens, context)
    batches = list(evaluation(row(tokens), context, batch_size))
    stacked = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    counted = stacked["weights_BT"] == 1
    assert all(array.shape == (batch_size, context) for batch in batches for array in batch.values())
    assert len(batches) == -(-windows // batch_size)
    assert stacked["token_ids_BT"][counted].tolist() == list(range(tokens - leftover - 1))
    assert stacked["target_ids_BT"][counted].tolist() == list(range(1, tokens - leftover))
    assert all((array[windows:] == 0).all() for array in stacked.values())
    assert 0 <= leftover < context


def test_evaluation_keeps_the_types_of_a_training_batch():
    evaluated, trained = next(evaluation(row(9), 4, 3)), training(9, 3).batch_at(0)
    assert {n: a.dtype for n, a in evaluated.items()} == {n: a.dtype for n, a in trained.items()}


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (np.array([0, 64, 65, 99]), "corpus: token id 65 at position 2 is outside 0..64 (vocabulary of 65)"),
        (np.array([[0, 1], [-7, 70]]), "corpus: token id -7 at position 1, 0 is outside 0..64"),
        (np.array([1.5]), "corpus: expected token ids, whole numbers in 0..64 (vocabulary of 65), got float64"),
    ],
)
def test_an_id_outside_the_vocabulary_is_named_with_its_place(ids, words):
    assert words in refusal(check_token_ids, ids, 65, "corpus")


def test_ids_inside_the_vocabulary_pass():
    check_token_ids(np.array([0, 64], np.uint8), 65, "corpus")
    check_token_ids([], 65, "corpus")
