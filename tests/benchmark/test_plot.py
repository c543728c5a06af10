"""The plot: where curves cross, and that a picture is written."""

import pytest

from jaxgpt.benchmark.plot import crossings, curves, draw_plot


def test_curves_cross_where_straight_lines_on_logarithmic_axes_do():
    ((T, time),) = crossings([10, 1000], [1, 100], [10, 10])
    assert (T, time) == (pytest.approx(100), pytest.approx(10))
    assert crossings([1, 2, 4], [1, 2, 3], [2, 3, 4]) == []
    assert len(crossings([1, 2, 4, 8], [1, 3, 3, 9], [2, 2, 4, 4])) == 3


def test_curves_are_the_times_of_attention_by_length(row, results):
    found = curves(results(row("dense", 0.1), row("dense", 0.4, T=8), row("blocked", None, T=8)), "forward")
    assert found == {("dense", "jit", "1 device", "B1 H1 D8 K1"): {4: 100.0, 8: 400.0}}


def test_a_picture_is_written(row, results, tmp_path):
    pytest.importorskip("matplotlib")
    rows = [row("eager", 0.1 * T, T=T, mode="eager") for T in (4, 8)] + [
        row("dense", 0.02 * T**2, T=T) for T in (4, 8)
    ]
    draw_plot(results(*rows), tmp_path / "times.png")
    assert (tmp_path / "times.png").read_bytes().startswith(b"\x89PNG")
