"""Who may see whom."""

import itertools

import numpy as np
import pytest
import reference_numpy

from jaxgpt import masks
from jaxgpt.config import RequestError
from jaxgpt.ops.attention.masks import as_mask

REAL = np.array([[False, True, True, True], [True, True, False, False]])
SEGMENTS = np.array([[3, 3, 5, 5], [1, 2, 2, 2]])
PARTS = {
    "causal": (masks.causal(), lambda b, t, s: s <= t),
    "window": (masks.window(2), lambda b, t, s: abs(t - s) < 2),
    "padding": (masks.padding(REAL), lambda b, t, s: REAL[b, s]),
    "segments": (masks.segments(SEGMENTS), lambda b, t, s: SEGMENTS[b, t] == SEGMENTS[b, s]),
}


@pytest.mark.parametrize(("T", "S"), [(1, 1), (4, 4), (1, 5), (3, 7)])
def test_the_queries_are_the_last_positions_of_the_keys(T, S):
    np.testing.assert_array_equal(masks.causal().visible(T, S), reference_numpy.visible("causal", T, S))


@pytest.mark.parametrize("names", [c for n in (1, 2, 3, 4) for c in itertools.combinations(PARTS, n)])
def test_parts_joined_by_and_show_what_all_of_them_show(names):
    mask = masks.full()
    for name in names:
        mask &= PARTS[name][0]
    rules = [PARTS[name][1] for name in names]
    expected = np.array(
        [[[all(rule(b, t, s) for rule in rules) for s in range(4)] for t in range(4)] for b in range(2)]
    )
    visible = np.asarray(mask.visible(4, 4))
    np.testing.assert_array_equal(np.broadcast_to(visible, (2, 1, 4, 4))[:, 0], expected)


def test_the_narrower_of_two_windows_and_the_common_keys_of_two_paddings_remain():
    both = (masks.window(3) & masks.padding(REAL)) & (masks.window(2) & masks.padding(~REAL[::-1]))
    assert both.reach == 2
    np.testing.assert_array_equal(both.keys_BS, REAL & ~REAL[::-1])


def test_the_full_mask_is_no_mask():
    assert masks.full().visible(4, 2) is None
    assert as_mask("full") == masks.full()
    assert as_mask("causal") == masks.causal()


@pytest.mark.parametrize("mask", [masks.causal(), masks.window(2)])
def test_more_queries_than_keys_are_refused_where_distances_count(mask):
    with pytest.raises(
        RequestError, match=r"3 queries for 2 keys; .* pass every key, a query_offset, or mask='full'"
    ):
        mask.visible(3, 2)


@pytest.mark.parametrize("mask", ["causel", None, True, np.ones((2, 2), bool)])
def test_an_unknown_mask_is_refused(mask):
    with pytest.raises(RequestError, match="mask: expected 'causal', 'full' or one built by"):
        as_mask(mask)


def test_parts_that_do_not_fit_are_refused():
    for size in (0, 2.5):
        with pytest.raises(RequestError, match=f"window: expected a whole number of at least 1, got {size}"):
            masks.window(size)
    with pytest.raises(RequestError, match="expected booleans"):
        masks.padding(np.ones((1, 2), np.float32))
    with pytest.raises(RequestError, match="one segment id"):
        masks.segments(SEGMENTS) & masks.segments(SEGMENTS)
    with pytest.raises(RequestError, match=r"mask_BS: expected shape \[B, S=3\]"):
        masks.padding(REAL).visible(3, 3)
    with pytest.raises(RequestError, match=r"segment_ids_BT: expected shape \[B, T=3\]"):
        masks.segments(SEGMENTS).visible(3, 4)


class TestPositions:
    def test_without_padding_and_segments_they_are_the_indices(self):
        assert masks.positions(4) is None

    def test_real_tokens_count_from_0_whatever_stands_before_them(self):
        np.testing.assert_array_equal(masks.positions(4, mask_BT=REAL)[REAL], [0, 1, 2, 0, 1])

    def test_they_restart_with_each_segment(self):
        np.testing.assert_array_equal(masks.positions(4, segment_ids_BT=SEGMENTS), [[0, 1, 0, 1], [0, 0, 1, 2]])

    def test_padding_inside_packed_rows_is_not_counted(self):
        real = np.array([[0, 1, 1, 1, 0, 1]])
        packed = np.array([[4, 4, 4, 9, 9, 9]])
        positions = np.asarray(masks.positions(6, mask_BT=real, segment_ids_BT=packed))
        np.testing.assert_array_equal(positions[real == 1], [0, 1, 0, 1])
        assert positions.min() >= 0
