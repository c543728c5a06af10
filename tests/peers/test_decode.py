"""transformers in the benchmark of generation: the same weights, the same tokens, and a wrong model is seen."""

import jax
import pytest
from peering import peer
from small_models import random_parameters

from jaxgpt import ModelConfig
from jaxgpt.benchmark.decode.contestants import contestants
from jaxgpt.benchmark.decode.run import timed_group
from jaxgpt.benchmark.decode.workload import Model, Workload
from jaxgpt.model.serving import Prepared

pytestmark = pytest.mark.ci
peer("torch")
peer("transformers")

GPT2 = ModelConfig(vocab_size=29, context_length=24, width=24, layers=2, heads=4, gelu="tanh")
CONFIGS = {
    "gpt2": GPT2,
    "llama": GPT2.replace(
        position="rope", rope_pairing="interleaved", norm="rmsnorm", ffn="swiglu", gelu="exact", ffn_width=40,
        kv_heads=2, tied_head=False, attention_bias=False, attention_out_bias=False, ffn_bias=False, norm_bias=False,
    ),
}  # fmt: skip


def row_of_transformers(config, params, checked_against):
    model = Model("small", "made by hand", config, params)
    *_, entrant = contestants(model, Prepared(config, params), peers=True)
    workload = Workload(config, 2, 5, 9)
    (row,) = timed_group(workload, [entrant], checked_against, 2, lambda message: None).rows
    return row


@pytest.mark.parametrize("name", CONFIGS)
def test_it_is_timed_where_its_tokens_are_ours(name):
    config, params = CONFIGS[name], random_parameters(CONFIGS[name])
    row = row_of_transformers(config, params, params)
    assert (row.contestant, row.left_out) == ("transformers", None)
    assert 0 < row.step.p10 <= row.step.median
    assert row.first.median > 0


@pytest.mark.parametrize("name", CONFIGS)
def test_it_is_not_timed_where_they_are_not(name):
    config, params = CONFIGS[name], random_parameters(CONFIGS[name])
    row = row_of_transformers(config, params, jax.tree.map(lambda x: 1.01 * x, params))
    assert row.wrong
    assert row.step is None


def test_what_no_layout_holds_is_left_out_with_the_reason():
    config = GPT2.replace(position="sinusoidal")
    params = random_parameters(config)
    row = row_of_transformers(config, params, params)
    assert not row.wrong
    assert "position" in row.left_out
