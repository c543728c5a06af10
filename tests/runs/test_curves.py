"""What is drawn of runs, read from their metrics."""

import dataclasses
import math

import pytest

from jaxgpt.config import RequestError
from jaxgpt.runs.curves import Curve, read_curves, running_mean, warnings
from jaxgpt.runs.directory import RunDirectory
from jaxgpt.runs.loss_plot import check_count, draw_runs
from jaxgpt.runs.metrics import MetricsLog


@pytest.fixture
def logged(tmp_path, manifest):
    """Return a function that makes a run with some lines of metrics."""

    def make(name, losses, validations=(), **changes):
        run = RunDirectory.create(tmp_path / name, dataclasses.replace(manifest, **changes))
        with MetricsLog(run) as log:
            for step, loss in losses:
                log.write(step, {"loss": loss, "grad_norm": 1.0})
            for step, loss in validations:
                log.write(step, {"validation_loss": loss, "validation_standard_error": 0.1})
        return run.path

    return make


def test_the_loss_comes_with_its_validation(logged):
    (run,) = read_curves([logged("a", [(1, 3.0), (2, 2.0)], [(2, 2.5)])], field="loss", smooth=1)
    assert (run.name, run.curve.steps, run.curve.values) == ("a", [1, 2], [3.0, 2.0])
    assert (run.validation.steps, run.validation.values, run.validation.errors) == ([2], [2.5], [0.1])
    (run,) = read_curves([logged("b", [(1, 3.0)], [(2, 2.5)])], field="grad_norm", smooth=1)
    assert (run.curve.values, run.validation) == ([1.0], None)


def test_smoothing_is_the_mean_of_the_last_lines(logged):
    path = logged("a", [(step, float(step)) for step in (1, 2, 3, 4)])
    assert read_curves([path], field="loss", smooth=3)[0].curve.values == [1.0, 1.5, 2.0, 3.0]
    assert str(running_mean([math.nan, 2.0], 2)) == "[nan, 2.0]"


def test_runs_of_one_name_are_told_apart_by_the_folder_above(logged, tmp_path):
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
    paths = [logged(name, [(1, 3.0)]) for name in ("x/run", "y/run")]
    assert [run.name for run in read_curves(paths, field="loss", smooth=1)] == ["x/run", "y/run"]


def test_what_is_not_finite_leaves_a_gap_and_is_said(logged):
    runs = read_curves([logged("a", [(1, 3.0), (2, math.inf), (3, math.nan)])], field="loss", smooth=1)
    assert runs[0].curve.lowest == (1, 3.0)
    assert warnings(runs, "loss") == ["a: 2 of 3 values are not finite and leave gaps"]


def test_losses_of_other_tokens_are_said_not_to_compare(logged):
    paths = [logged("a", [(1, 3.0)]), logged("b", [(1, 3.0)], tokenizer=None)]
    runs = read_curves(paths, field="loss", smooth=1)
    (words,) = warnings(runs, "loss")
    assert words.startswith("the runs have different tokenizers, so their losses per token cannot be compared")
    assert warnings(runs, "grad_norm") == []
    assert warnings(runs[:1], "loss") == []


def test_what_cannot_be_drawn_is_refused_by_name(logged, tmp_path, manifest):
    path = logged("a", [(1, 3.0)])
    with pytest.raises(RequestError, match=r"no metric 'los'; did you mean 'loss'\? \(it has grad_norm, loss\)"):
        read_curves([path], field="los", smooth=1)
    with pytest.raises(RequestError, match="named twice"):
        read_curves([path, tmp_path / "." / "a"], field="loss", smooth=1)
    with pytest.raises(RequestError, match="has no metrics: nothing was trained there yet"):
        read_curves([RunDirectory.create(tmp_path / "new", manifest).path], field="loss", smooth=1)
    with pytest.raises(RequestError, match="no value of loss is finite"):
        read_curves([logged("nan", [(1, math.nan)])], field="loss", smooth=1)
    with pytest.raises(RequestError, match="8 runs are more than can be told apart"):
        check_count(8)


def test_a_picture_is_written(logged, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (the plot extra)")
    paths = [logged(name, [(1, 3.0), (2, math.nan)], [(1, 3.0), (2, 2.5)]) for name in "ab"]
    runs = read_curves(paths, field="loss", smooth=1)
    draw_runs(runs, tmp_path / "losses.png", field="loss", smooth=1, notes=["a note"])
    assert (tmp_path / "losses.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("losses", [[(1, 3.0)], [(1, math.nan), (2, 3.0), (3, math.inf)]], ids=str)
def test_a_value_without_neighbours_is_seen(logged, tmp_path, losses):
    """The dot lies in the middle, where all else is grey."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (the plot extra)")
    from matplotlib.image import imread

    draw_runs(
        read_curves([logged("a", losses)], field="loss", smooth=1),
        tmp_path / "a.png",
        field="loss",
        smooth=1,
        notes=[],
    )
    pixels = imread(tmp_path / "a.png")
    height, width, _ = pixels.shape
    middle = pixels[height // 3 : 2 * height // 3, width // 3 : 2 * width // 3]
    assert (middle[..., 2] - middle[..., 0] > 0.3).any()


def test_values_that_no_line_reaches():
    nan = math.nan
    for values, alone in [
        ([1.0], [0]),
        ([1.0, 2.0], []),
        ([nan, 1.0, nan, 2.0], [1, 3]),
        ([1.0, nan, 2.0, 2.0], [0]),
    ]:
        assert Curve(list(range(len(values))), values).alone == alone
