"""A wrong contestant is refused and not timed; so is one that memory does not hold."""

import jax
import pytest

from jaxgpt.benchmark import run
from jaxgpt.benchmark.contestants import Contestant, chosen, contestants
from jaxgpt.benchmark.machine import Machine
from jaxgpt.benchmark.run import run_benchmark
from jaxgpt.benchmark.workload import parse_shape
from jaxgpt.config import RequestError
from jaxgpt.ops.attention import KERNELS, explain_attention

WORKLOAD = parse_shape("1x8x2x4")


@pytest.fixture
def benchmark(monkeypatch):
    """Return a function that runs contestants on the small workload, without measuring the machine."""
    monkeypatch.setattr(run, "measure_machine", lambda dtype, seconds: Machine(1.0, 1.0))

    def with_entrants(*entrants, passes=("forward",)):
        said = []
        results = run_benchmark([WORKLOAD], entrants, passes=passes, devices="one", seconds=0.001, say=said.append)
        return {(row.contestant, row.passes): row for row in results.rows}, results

    return with_entrants


def wrong_kernel(workload, division):
    """Right but for the last position of the last head."""
    right = contestants()["dense"].make(workload, division)
    return lambda q, k, v: right(q, k, v).at[-1, -1, -1].multiply(1.01)


def wrong_gradient(workload, division):
    """A right value, and queries whose gradient is off."""
    right = contestants()["dense"].make(workload, division)
    return lambda q, k, v: right(q, k, v) + 0.01 * (q - jax.lax.stop_gradient(q))


def test_a_wrong_kernel_is_refused_and_not_timed(benchmark):
    rows, results = benchmark(Contestant("mine", wrong_kernel), contestants()["dense"])
    wrong, right = rows["mine", "forward"], rows["dense", "forward"]
    assert wrong.wrong
    assert wrong.spread is None
    assert wrong.left_out.startswith("wrong result: out off by ")
    assert results.wrong == (wrong,)
    assert not right.wrong
    assert right.spread.median > 0


def test_a_wrong_gradient_is_refused_in_the_pass_that_has_it(benchmark):
    rows, _ = benchmark(Contestant("mine", wrong_gradient), passes=("forward", "forward+backward"))
    assert rows["mine", "forward"].spread is not None
    assert rows["mine", "forward+backward"].spread is None
    assert "dq off by" in rows["mine", "forward+backward"].left_out


def test_what_memory_does_not_hold_is_left_out_and_not_called_wrong(benchmark, monkeypatch):
    monkeypatch.setattr(run, "free_bytes", lambda: 1000)
    rows, results = benchmark(contestants()["eager"], contestants()["reference"])
    eager, compiled = rows["eager", "forward"], rows["reference", "forward"]
    assert "op by op, it needs about" in eager.left_out  # 4 squares of 2 heads, 8 x 8, 4 bytes: 2048
    assert "compiled, it needs" in compiled.left_out
    assert (eager.spread, compiled.spread, results.wrong) == (None, None, ())


def test_only_what_holds_squares_of_scores_is_judged_by_them():
    holding = [name for name, entrant in contestants().items() if entrant.holds_squares]
    assert holding == ["eager", "disable_jit", "torch.eager", "block.eager"]


def test_what_a_contestant_cannot_do_is_said():
    grouped = parse_shape("1x8x4x4x2")
    assert contestants()["splash"].refusal(grouped) == "runs on tpu, not on cpu"
    assert contestants()["flax.linen"].refusal(grouped) == "has no grouped heads"
    assert contestants()["jax.nn"].refusal(grouped) is None
    assert contestants()["dense"].refusal(grouped) is None


def test_every_kernel_that_takes_as_many_queries_as_keys_is_a_contestant():
    assert [name for name in KERNELS if name not in contestants()] == ["decode"]
    assert explain_attention(*[jax.ShapeDtypeStruct((1, 1, 2, 4), "float32")] * 3).refusals["decode"]


def test_an_unknown_contestant_is_refused_with_the_nearest():
    with pytest.raises(RequestError, match="unknown contestant 'dens'; did you mean 'dense'"):
        chosen(["eager", "dens"])


def test_contestants_keep_the_order_of_the_table():
    assert [entrant.name for entrant in chosen(["block", "eager", "dense"])] == ["eager", "dense", "block"]
