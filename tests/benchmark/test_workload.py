"""Shapes are read strictly, and the work in them is what one counts by hand."""

import numpy as np
import pytest

from jaxgpt.benchmark.workload import parse_shape, parse_sweep
from jaxgpt.config import RequestError

SHAPE = parse_shape("1x3x2x4")  # width 8, feed-forward width 32


def test_a_shape_is_read_axis_by_axis():
    shape = parse_shape("2x3x8x5x4", dtype="bfloat16", mask="full", seed=1)
    assert (shape.B, shape.T, shape.H, shape.D, shape.K) == (2, 3, 8, 5, 4)
    assert (shape.dtype, shape.mask, shape.seed) == ("bfloat16", "full", 1)


@pytest.mark.parametrize("text", ["", "3", "1x2x3", "1x2x3x4x5x6", "1x2x3x", "ax2x3x4", "0x2x3x4", "1x2x3x4x2"])
def test_another_shape_is_refused(text):
    with pytest.raises(RequestError, match="shape"):
        parse_shape(text)


@pytest.mark.parametrize("wrong", [{"dtype": "float23"}, {"mask": "casual"}])
def test_an_unknown_dtype_or_mask_is_refused_with_the_nearest(wrong):
    with pytest.raises(RequestError, match="did you mean"):
        parse_shape("1x2x3x4", **wrong)


def test_a_sweep_doubles_up_to_its_end():
    assert parse_sweep("64:600") == [64, 128, 256, 512]
    assert parse_sweep("5:5") == [5]
    for wrong in ("5", "8:4", "0:4", "a:b"):
        with pytest.raises(RequestError, match="sweep"):
            parse_sweep(wrong)


def test_attention_flops():
    """Each of 2 heads: q k^T and weights times v, 2 x 4 operations a pair each; 3 x 3 pairs, or 1 + 2 + 3."""
    assert SHAPE.flops("attention", "forward", full=True) == 2 * 2 * (2 * 4) * 9
    assert SHAPE.flops("attention", "forward", full=False) == 2 * 2 * (2 * 4) * 6
    assert SHAPE.flops("attention", "forward+backward", full=False) == 3 * 2 * 2 * (2 * 4) * 6
    assert parse_shape("1x3x2x4", mask="full").flops("attention", "forward", full=False) == 288


def test_flops_of_the_block_are_those_of_its_matmuls():
    ffn = 3 * (2 * 8 * 32 + 2 * 32 * 8)
    assert SHAPE.flops("ffn", "forward", full=False) == ffn
    projections = 3 * 4 * (2 * 8 * 8)
    assert SHAPE.flops("block", "forward", full=False) == ffn + projections + 192
    halved = 3 * (2 * (2 * 8 * 8) + 2 * (2 * 8 * 4))  # k and v of one head only
    assert parse_shape("1x3x2x4x1").flops("block", "forward", full=False) == ffn + halved + 192


def test_least_bytes_are_those_of_the_arrays():
    """Forward: q, k, v and out; with backward also the gradient of each."""
    assert SHAPE.least_bytes("attention", "forward") == 4 * 4 * (3 * 2 * 4)
    assert SHAPE.least_bytes("attention", "forward+backward") == 8 * 4 * (3 * 2 * 4)
    grouped = parse_shape("1x3x2x4x1", dtype="bfloat16")
    assert grouped.least_bytes("attention", "forward") == 2 * (2 * 24 + 2 * 12)


@pytest.mark.parametrize("subject", ["ffn", "block"])
def test_least_bytes_of_a_module_count_its_parameters(subject):
    x_BTC, params = SHAPE.case(subject).arguments
    held = sum(leaf.size for part in params.values() for leaf in _leaves(part))
    assert SHAPE.least_bytes(subject, "forward") == 4 * (2 * x_BTC.size + held)


def _leaves(tree):
    return [tree] if not isinstance(tree, dict) else [leaf for part in tree.values() for leaf in _leaves(part)]


def test_the_numbers_follow_from_the_seed():
    q, again, other = (parse_shape("1x3x2x4", seed=n).case("attention").arguments[0] for n in (3, 3, 4))
    assert (q == again).all()
    assert not np.allclose(q, other)


def test_only_the_checked_positions_have_a_gradient_flowing_in(monkeypatch):
    monkeypatch.setattr("jaxgpt.benchmark.workload.CHECKED_ROWS", 2)
    case = parse_shape("1x5x2x4").case("block")
    flowing_T = (np.asarray(case.d_out) != 0).any(axis=(0, 2))
    assert np.flatnonzero(flowing_T).tolist() == case.rows_T.tolist()
    assert len(case.rows_T) == 2
