"""Who may see whom."""

import itertools

import jax
import numpy as np
import pytest
import reference_numpy

from jaxgpt import masks
from jaxgpt.config import RequestError
from jaxgpt.ops.attention.masks import Mask, as_mask

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


LENGTHS = np.array([3, 0])


def seen(mask, T, S):
    return np.broadcast_to(np.asarray(mask.visible(T, S)), (2, 1, T, S))[:, 0]


class TestLengths:
    def test_the_first_keys_are_real(self):
        expected = [[[s < length for s in range(4)]] * 2 for length in LENGTHS]
        np.testing.assert_array_equal(seen(masks.lengths(LENGTHS), 2, 4), expected)

    def test_the_shorter_of_two_remains(self):
        both = masks.lengths(LENGTHS) & masks.lengths(np.array([1, 2]))
        np.testing.assert_array_equal(both.lengths_B, [1, 0])

    def test_anything_but_whole_numbers_one_for_each_row_is_refused(self):
        with pytest.raises(RequestError, match="lengths_B: expected whole numbers, got float32"):
            masks.lengths(LENGTHS.astype(np.float32))
        with pytest.raises(RequestError, match=r"lengths_B: expected shape \[B\], got \[2, 1\]"):
            masks.lengths(LENGTHS[:, None])
        with pytest.raises(RequestError, match="lengths_B: expected 3 rows, or 1 that serves all, got 2"):
            masks.lengths(LENGTHS).fitted(3, 4, 4)


class TestQueryOffset:
    def test_it_is_the_position_of_the_first_query(self):
        expected = [[[s <= t + 1 for s in range(6)] for t in range(3)]] * 2
        np.testing.assert_array_equal(seen(masks.causal() & Mask(query_offset=1), 3, 6), expected)

    def test_each_row_may_have_its_own(self):
        mask = masks.causal() & masks.window(2) & Mask(query_offset=np.array([0, 4]))
        expected = [[[0 <= t + first - s < 2 for s in range(6)] for t in range(3)] for first in (0, 4)]
        np.testing.assert_array_equal(seen(mask, 3, 6), expected)

    def test_with_it_there_may_be_more_queries_than_keys(self):
        expected = [[[s <= t for s in range(2)] for t in range(4)]] * 2
        np.testing.assert_array_equal(seen(masks.causal() & Mask(query_offset=0), 4, 2), expected)

    def test_what_no_query_can_stand_on_is_refused(self):
        with pytest.raises(RequestError, match="query_offset: expected at least 0, got -1; it is the first query"):
            (masks.causal() & Mask(query_offset=-1)).visible(2, 4)
        with pytest.raises(RequestError, match="query_offset_B: expected 2 rows, or 1 that serves all, got 3"):
            (masks.causal() & Mask(query_offset=np.arange(3))).fitted(2, 2, 4)
        with pytest.raises(RequestError, match="two masks with a query_offset cannot be combined"):
            Mask(query_offset=1) & Mask(query_offset=2)

    def test_a_number_stays_one_under_jit_and_an_array_is_traced(self):
        kinds = []
        jax.jit(lambda mask: kinds.append(type(mask.query_offset)))(Mask(causal=True, query_offset=3))
        jax.jit(lambda mask: kinds.append(isinstance(mask.query_offset, jax.core.Tracer)))(
            Mask(causal=True, query_offset=np.array([3]))
        )
        assert kinds == [int, True]


class TestFitted:
    def test_every_array_has_all_rows(self):
        one_row = masks.padding(REAL[:1]) & masks.lengths(LENGTHS[:1]) & masks.segments(SEGMENTS[:1])
        fitted = (one_row & masks.causal() & Mask(query_offset=np.array([2]))).fitted(3, 4, 4)
        assert {leaf.shape[0] for leaf in jax.tree.leaves(fitted)} == {3}
        assert len(jax.tree.leaves(fitted)) == 5

    @pytest.mark.parametrize(
        ("mask", "parts"),
        [
            (masks.full(), ()),
            (masks.window(4), ()),
            (masks.causal() & masks.window(9), ("causal",)),
            (masks.window(3), ("window",)),
            (masks.window(4) & Mask(query_offset=9), ("window", "query offset")),
            (Mask(query_offset=1), ()),
            (masks.causal() & Mask(query_offset=2), ("causal",)),
            (masks.causal() & Mask(query_offset=1), ("causal", "query offset")),
            (masks.lengths(LENGTHS) & masks.padding(REAL), ("padding", "lengths")),
        ],
    )
    def test_a_part_that_hides_nothing_is_left_out(self, mask, parts):
        fitted = mask.fitted(2, 2, 4)
        assert fitted.parts == parts
        np.testing.assert_array_equal(*(np.asarray(each.visible(2, 4)) for each in (mask, fitted)))

    @pytest.mark.parametrize(
        ("mask", "may"),
        [
            (masks.causal() & masks.window(1), False),
            (masks.causal() & Mask(query_offset=5), False),
            (masks.causal() & masks.window(2) & Mask(query_offset=5), True),
            (masks.padding(REAL), True),
            (masks.lengths(LENGTHS), True),
            (masks.segments(SEGMENTS), True),
        ],
    )
    def test_only_arrays_and_windows_at_offsets_may_hide_everything(self, mask, may):
        assert mask.may_hide_everything == may


EVERYTHING = masks.causal() & masks.window(3) & masks.padding(REAL) & masks.lengths(np.array([4, 2]))
EVERYTHING &= masks.segments(SEGMENTS)


class TestTile:
    @pytest.mark.parametrize("offset", [None, 1, np.array([0, 3])])
    @pytest.mark.parametrize("traced", [False, True])
    def test_it_is_a_part_of_what_is_visible(self, offset, traced):
        fitted = (EVERYTHING if offset is None else EVERYTHING & Mask(query_offset=offset)).fitted(2, 4, 4)
        tile = jax.jit(fitted.tile, static_argnums=(1, 3, 4)) if traced else fitted.tile
        whole = np.asarray(fitted.visible(4, 4))
        for query, key in ((0, 0), (1, 2), (2, 1)):
            part = tile(query, 2, key, 2, 0)
            np.testing.assert_array_equal(part, whole[:, :, query : query + 2, key : key + 2])

    def test_the_queries_are_the_last_positions_unless_an_offset_says_otherwise(self):
        np.testing.assert_array_equal(masks.causal().tile(1, 1, 2, 3, last=3), [[True, True, True]])
        np.testing.assert_array_equal(masks.causal().tile(1, 1, 2, 3, last=2), [[True, True, False]])

    def test_the_full_mask_has_none(self):
        assert masks.full().tile(0, 2, 0, 2, last=0) is None


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


def test_segments_are_whole_numbers():
    with pytest.raises(RequestError, match="segment_ids_BT: expected whole numbers, got float"):
        masks.segments(np.array([[0.2, 0.7]]))
