"""Several files by weight: exact shares everywhere, each file without repetition, the same from any place on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgpt.config import RequestError
from jaxgpt.data.batches import TrainingBatches, evaluation_batches
from jaxgpt.data.examples import Windows
from jaxgpt.data.mixture import Mixture
from jaxgpt.data.order import LONGEST_TURN, Epochs, Mixed, whole_shares

quick = settings(max_examples=20, deadline=None)
WEIGHTS = st.lists(st.integers(1, 60), min_size=2, max_size=5)
T = 4


def mixture(weights, windows=(30, 7, 50, 11, 3)):
    """Files whose ids say which file they are of (thousands) and where they stand."""
    rows = [np.arange(count + T, dtype=np.int32) + 1000 * m for m, count in enumerate(windows[: len(weights)])]
    parts = [Windows(row_N, context_length=T) for row_N in rows]
    return Mixture(parts, weights=weights, names=[f"file {m}" for m in range(len(parts))])


def begins(batches, steps):
    """The first id of each row of so many steps."""
    return np.concatenate([batches.batch_at(step)["token_ids_BT"][:, 0] for step in range(steps)])


class InTurn:
    """An order that says which place it was asked for (the real one takes 3 ms where there are few examples)."""

    def examples_at(self, places_B):
        return places_B


@quick
@given(WEIGHTS)
def test_after_any_number_of_examples_each_file_has_had_its_share_within_one_and_its_places_in_turn(weights):
    places, far = 2 * sum(weights) + 7, 10**6
    order = Mixed([InTurn() for _ in weights], counts=[far] * len(weights), weights=weights)
    files, own = np.divmod(order.examples_at(np.arange(places)), far)
    had = np.cumsum(files[:, None] == np.arange(len(weights)), axis=0)
    exact = np.arange(1, places + 1)[:, None] * np.array(weights) / sum(weights)
    assert np.abs(had - exact).max() < 1
    assert own.tolist() == [had[place, file] - 1 for place, file in enumerate(files)]
    assert [order.counts_before(place + 1).tolist() for place in range(places)] == had.tolist()


def test_no_example_of_a_file_comes_again_before_all_of_that_file_have_come():
    taken = begins(TrainingBatches(mixture([2, 1]), batch_size=8, seed=1337), 16)
    for m, count in enumerate((30, 7)):
        own = taken[taken // 1000 == m] % 1000
        assert len(own) > 2 * count
        for first in (0, count):
            assert sorted(own[first : first + count]) == list(range(count))


@quick
@given(WEIGHTS, st.integers(1, 9), st.integers(0, 10**9))
def test_a_stream_goes_on_from_any_step(weights, batch_size, start):
    batches = TrainingBatches(mixture(weights, [10**6] * 5), batch_size=batch_size, seed=3)
    with batches.stream(start) as stream:
        for step in range(start, start + 4):
            batch, expected = next(stream), batches.batch_at(step)
            assert all(np.array_equal(batch[name], expected[name]) for name in expected)


def test_each_seed_has_its_own_order_and_files_of_one_size_do_not_share_theirs():
    orders = [begins(TrainingBatches(mixture([1, 1], (30, 30)), batch_size=30, seed=seed), 4) for seed in range(3)]
    assert len({tuple(order) for order in orders}) == 3
    first = orders[0]
    assert (first[first < 1000] != first[first >= 1000] - 1000).any()


def test_examples_are_numbered_one_file_after_another():
    both = mixture([1, 3])
    rows = both.batch(np.array([0, 36, 30, 29]), seed=0, draws_B=np.arange(4))
    assert rows["token_ids_BT"][:, 0].tolist() == [0, 1006, 1000, 29]
    assert rows["target_ids_BT"][:, -1].tolist() == [4, 1010, 1004, 33]
    assert (both.place(29), both.place(30)) == ("the window at token 29 of file 0", "the window at token 0 of file 1")
    read = np.concatenate([batch["token_ids_BT"] for batch in evaluation_batches(both, batch_size=3)])
    assert read[:9].ravel().tolist() == [*range(32), *range(1000, 1004)]
    assert both.describe().startswith("file 0: 8 whole windows of 4, 1 tokens left over; file 1: 2 whole")


def test_weights_count_as_they_are_written():
    assert whole_shares([0.1, 0.2, 0.3]) == [1, 2, 3]
    assert whole_shares([1e-4, 0.9999]) == [1, 9999]
    assert whole_shares([7.0]) == [1]


def test_weights_that_no_turn_holds_are_refused_with_others_that_are_near():
    with pytest.raises(RequestError) as caught:
        mixture([9_035_582_198, 4_434_897])
    assert str(caught.value).endswith("give shares of at most four digits, such as 0.9995,0.0005")
    assert f"at most {LONGEST_TURN:,}, got 9.03558e+09, 4.4349e+06, which take 9,040,017,095;" in str(caught.value)


def test_the_weights_that_are_advised_are_taken():
    with pytest.raises(RequestError) as caught:
        whole_shares([1e-30, 1])
    advised = [float(share) for share in str(caught.value).rpartition(" ")[2].split(",")]
    assert whole_shares(advised) == [1, 10_000]


def test_an_order_costs_the_same_at_any_place():
    """A place far off is computed, not walked to."""
    order = Mixed([Epochs(5, seed=0), Epochs(10**12, seed=1)], counts=[5, 10**12], weights=[1, 2])
    far = 10**15 + np.arange(3)
    assert order.examples_at(far).shape == (3,)
    assert order.counts_before(3 * 10**15 + 3).tolist() == [10**15 + 1, 2 * (10**15 + 1)]
