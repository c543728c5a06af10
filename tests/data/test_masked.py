"""Masked windows hide the share they are asked to, count what they hide, and hide it again the same way."""

import numpy as np
import pytest

from jaxgpt.config import RequestError
from jaxgpt.data.batches import TrainingBatches, evaluation_batches
from jaxgpt.data.masked import MaskedWindows
from jaxgpt.data.mixture import Mixture

MASK, ORDINARY = 50, 50
IDS = np.random.default_rng(0).integers(0, ORDINARY, 4000).astype(np.int32)


def windows(rate=0.15, ids=IDS, context_length=40):
    return MaskedWindows(
        ids, context_length=context_length, mask_id=MASK, ordinary_ids_U=np.arange(ORDINARY), rate=rate
    )


def test_the_chosen_share_counts_and_most_of_it_becomes_the_mask():
    batch = windows().batch(np.arange(3000), seed=1, draws_B=np.arange(3000))
    shown, targets, counted = batch["token_ids_BT"], batch["target_ids_BT"], batch["weights_BT"] == 1
    assert targets[7].tolist() == IDS[7:47].tolist()
    assert (shown[~counted] == targets[~counted]).all()
    share, masked = counted.mean(), (shown[counted] == MASK).mean()
    kept = (shown[counted] == targets[counted]).mean()
    # 120,000 positions: three standard deviations are 0.003 of the share, 0.009 of what becomes of it.
    assert share == pytest.approx(0.15, abs=0.0035)
    assert masked == pytest.approx(0.8, abs=0.01)
    assert kept == pytest.approx(0.1 + 0.1 / ORDINARY, abs=0.01)
    assert shown.max() == MASK


def test_an_appearance_is_hidden_by_its_draw_and_seed_alone():
    rows = {
        (seed, draw): windows().batch(np.array([5, 9]), seed=seed, draws_B=np.array([draw, 77]))["weights_BT"]
        for seed in (1, 2)
        for draw in (3, 4)
    }
    assert len({row[0].tobytes() for row in rows.values()}) == 4
    assert len({row[1].tobytes() for row in rows.values()}) == 2
    alone = windows().batch(np.array([9]), seed=1, draws_B=np.array([77]))["weights_BT"][0]
    np.testing.assert_array_equal(alone, rows[1, 3][1])


def test_the_same_window_is_hidden_otherwise_in_the_next_epoch():
    batches = TrainingBatches(windows(ids=IDS[:41]), batch_size=2, seed=0)
    first, second = (batches.batch_at(step) for step in (0, 1))
    by_window = [
        {tuple(t): w.tobytes() for t, w in zip(b["target_ids_BT"], b["weights_BT"], strict=True)}
        for b in (first, second)
    ]
    assert by_window[0].keys() == by_window[1].keys()
    assert all(by_window[0][window] != by_window[1][window] for window in by_window[0])


@pytest.mark.parametrize("batch_size", [7, 100])
def test_an_evaluation_reads_each_token_once_and_hides_the_same_whatever_the_batch(batch_size):
    batches = list(evaluation_batches(windows(), batch_size=batch_size))
    targets, weights = (np.concatenate([b[n] for b in batches])[:100] for n in ("target_ids_BT", "weights_BT"))
    assert targets.ravel().tolist() == IDS.tolist()
    one_by_one = [b["weights_BT"][0] for b in evaluation_batches(windows(), batch_size=1)]
    np.testing.assert_array_equal(weights, one_by_one)


def test_a_text_of_one_window_is_enough_and_a_shorter_one_is_refused_with_both_numbers():
    assert windows(ids=IDS[:40]).count == len(windows(ids=IDS[:40]).tiling) == 1
    assert windows(ids=IDS[:100]).describe() == "2 whole windows of 40, 15% hidden, 20 tokens left over"
    assert windows(ids=IDS[:100]).tiling.tolist() == [0, 40]
    with pytest.raises(RequestError, match=r"has 39 tokens, but model\.context_length 40 needs at least as many"):
        windows(ids=IDS[:39])


def test_what_a_row_of_a_mixture_hides_depends_on_its_own_draw():
    parts, draws = [windows(ids=IDS[:100]), windows(ids=IDS[100:300])], [10, 11, 12, 13]
    mixture = Mixture(parts, weights=[1, 1], names=["a", "b"])
    rows = mixture.batch(np.array([0, 61, 1, 62]), seed=1, draws_B=np.array(draws))
    for row, (m, example) in enumerate([(0, 0), (1, 0), (0, 1), (1, 1)]):
        alone = parts[m].batch(np.array([example]), seed=1, draws_B=np.array(draws[row : row + 1]))
        for name in alone:
            np.testing.assert_array_equal(rows[name][row], alone[name][0])
