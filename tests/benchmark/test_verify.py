"""Right results pass, and whatever is wrong in them is refused."""

import jax
import numpy as np
import pytest

from jaxgpt.benchmark import verify
from jaxgpt.benchmark.contestants import contestants
from jaxgpt.benchmark.division import Division
from jaxgpt.benchmark.programs import build
from jaxgpt.benchmark.verify import make_check
from jaxgpt.benchmark.workload import parse_shape

WORKLOAD = parse_shape("2x6x4x4x2")


def prepared(name, workload=WORKLOAD):
    """Return (check, out, gradients) of a contestant, as NumPy arrays."""
    entrant = contestants()[name]
    case = workload.case(entrant.subject)
    program = build(entrant, workload, Division(), case, "forward+backward")
    return make_check(workload, entrant.subject, case), *jax.tree.map(np.array, program.call())


@pytest.fixture(scope="module", params=["dense", "ffn", "block"])
def right(request):
    return prepared(request.param)


def test_a_right_result_passes(right):
    check, out, gradients = right
    assert check.refusal(out, gradients) is None
    assert check.refusal(out, None) is None


@pytest.mark.parametrize("change", [1e-3, np.nan])
def test_one_wrong_number_of_the_value_is_refused(right, change):
    check, out, gradients = right
    broken = out.copy()
    broken.flat[-1] += change
    assert "out off by" in check.refusal(broken, None)
    assert "out off by" in check.refusal(broken, gradients)


def test_a_wrong_gradient_of_any_argument_or_parameter_is_refused(right):
    check, out, gradients = right
    leaves, tree = jax.tree.flatten(gradients)
    largest = max(abs(leaf).max() for leaf in leaves)
    wrong = [n for n, leaf in enumerate(leaves) if abs(leaf).max() > 1e-4 * largest]  # a key's bias has no gradient
    assert len(wrong) >= len(leaves) - 1
    for n in wrong:
        broken = [1.001 * leaf if n == m else leaf for m, leaf in enumerate(leaves)]
        assert "wrong result: " in check.refusal(out, jax.tree.unflatten(tree, broken)), n


def test_one_wrong_number_of_any_gradient_is_refused(right):
    check, out, gradients = right
    leaves, tree = jax.tree.flatten(gradients)
    for n, leaf in enumerate(leaves):
        broken = leaf.copy()
        broken.flat[leaf.size // 2] += 0.001 * max(np.linalg.norm(leaf), 0.01 * np.linalg.norm(leaves[0]))
        changed = [broken if n == m else other for m, other in enumerate(leaves)]
        assert "wrong result: " in check.refusal(out, jax.tree.unflatten(tree, changed)), n


def test_long_sequences_are_checked_in_a_sample_of_heads(monkeypatch):
    monkeypatch.setattr(verify, "_PAIRS", 3 * 2 * WORKLOAD.pairs(full=False))  # two query heads of each key head
    check, out, gradients = prepared("dense")
    assert check.scope.startswith("value and gradients of 3 of 4 key heads")
    assert check.refusal(out, gradients) is None
    heads = out.reshape(2, 6, 2, 2, 4)  # two key heads of two query heads
    refused = []
    for b, k in np.ndindex(2, 2):
        broken = heads.copy()
        broken[b, -1, k, -1, -1] += 1e-3
        refused.append(check.refusal(broken.reshape(out.shape), None) is not None)
    assert sum(refused) == 3


def test_scores_are_rounded_relative_to_their_size():
    assert verify.tolerance(WORKLOAD, 50.0) == 1e-5
    assert verify.tolerance(WORKLOAD, 1000.0) == pytest.approx(1e-4)
    assert verify.tolerance(parse_shape("1x2x1x4", dtype="bfloat16"), 0.0) == 1e-2


@pytest.mark.ci  # ten compilations
@pytest.mark.parametrize("shape", ["2x6x4x4", "2x6x4x4x2"])
@pytest.mark.parametrize("mask", ["causal", "full"])
def test_every_contestant_is_right(shape, mask):
    workload = parse_shape(shape, mask=mask)
    for entrant in contestants().values():
        if entrant.refusal(workload) is None:
            case = workload.case(entrant.subject)
            check = make_check(workload, entrant.subject, case)
            for passes in ("forward", "forward+backward"):
                program = build(entrant, workload, Division(), case, passes)
                assert check.refusal(*program.arrays(program.call())) is None, (entrant.name, passes)
