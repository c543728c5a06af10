"""PyTorch takes part in the benchmark of attention on the same numbers, and is right."""

import numpy as np
import pytest
from peering import peer

from jaxgpt.benchmark.contestants import contestants
from jaxgpt.benchmark.division import Division
from jaxgpt.benchmark.peers import tensor, untensored
from jaxgpt.benchmark.programs import build
from jaxgpt.benchmark.verify import make_check
from jaxgpt.benchmark.workload import parse_shape

pytestmark = pytest.mark.ci
peer("torch")


@pytest.mark.parametrize("name", ["torch.eager", "torch.sdpa"])
@pytest.mark.parametrize("mask", ["causal", "full"])
@pytest.mark.parametrize(
    ("shape", "dtype"), [("2x5x4x8", "float32"), ("2x5x4x8x2", "float32"), ("1x5x2x8", "bfloat16")]
)
def test_it_agrees_with_float64(name, mask, shape, dtype):
    workload = parse_shape(shape, mask=mask, dtype=dtype)
    entrant, case = contestants()[name], workload.case("attention")
    assert entrant.refusal(workload) is None
    check = make_check(workload, "attention", case)
    for passes in ("forward", "forward+backward"):
        program = build(entrant, workload, Division(), case, passes)
        out, gradients = program.arrays(program.call())
        assert check.refusal(out, gradients) is None
        assert check.refusal(1.1 * out, gradients) is not None


def test_an_array_there_and_back_is_the_same():
    array = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    assert tensor(array).shape == (1, 3, 2, 4)
    assert (untensored(tensor(array)) == array).all()
