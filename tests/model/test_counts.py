"""Parameter counts: the published ones, from formulas written here."""

import math

import jax
import pytest
from small_models import ARCHITECTURES

import jaxgpt
from jaxgpt import ModelConfig, count_parameters
from jaxgpt.config import RequestError
from jaxgpt.model.buckets import quoted_numbers


def gpt2_total(V, T, C, L):
    """Tables, then per block 4 C^2 + 4 C in attention, 8 C^2 + 5 C in the network, 4 C in two norms; a last norm."""
    return V * C + T * C + L * (12 * C**2 + 13 * C) + 2 * C


SIZES = {
    "gpt2": (768, 12, 124_439_808),
    "gpt2-medium": (1024, 24, 354_823_168),
    "gpt2-large": (1280, 36, 774_030_080),
    "gpt2-xl": (1600, 48, 1_557_611_200),
}


@pytest.mark.parametrize("name", SIZES)
def test_gpt2_has_as_many_parameters_as_published(name):
    C, L, published = SIZES[name]
    assert gpt2_total(50257, 1024, C, L) == published
    assert count_parameters(ModelConfig.preset(name)).total == published


def test_minigpt_has_541_parameters():
    V, T, C, F, L = 5, 8, 4, 16, 2
    block = 4 * C**2 + 2 * C * F + F + C + 4 * C
    by_hand = V * C + T * C + L * block + 2 * C + C * V + V
    assert count_parameters(ModelConfig.preset("minigpt")).total == by_hand == 541


def test_the_numbers_quoted_for_gpt2_are_all_there():
    V, T, C, L = 50257, 1024, 768, 12
    own = gpt2_total(V, T, C, L)
    matrices = V * C + T * C + 12 * L * C**2
    wanted = [
        matrices + (2 * L + 1) * C,  # no biases: the norms keep their scales
        own - T * C,  # no position table
        gpt2_total(50304, T, C, L),  # a vocabulary padded to a multiple of 64
        own + V * C,  # a head of its own
        own + L * T * T,  # with the masks in the file
        matrices,  # what decays
        own - V * C - T * C,  # without the tables
        own - V * C - T * C - 2 * C,  # the blocks
    ]
    assert [number.count for number in quoted_numbers(ModelConfig.preset("gpt2"))] == wanted
    assert wanted[:4] == [124_337_664, 123_653_376, 124_475_904, 163_037_184]


def test_a_quoted_number_differs_from_the_models_own_and_says_why():
    config = ModelConfig(vocab_size=64, width=8, heads=2, position="none", tied_head=False)
    numbers = quoted_numbers(config)
    own = count_parameters(config).total
    assert all(number.count != own and number.reason for number in numbers)
    reasons = " ".join(number.reason for number in numbers)
    assert "with the head tied to the embedding" in reasons
    assert "padded" not in reasons  # 64 is a multiple of 64 already
    assert "position table" not in reasons  # there is none


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_buckets_sum_to_what_init_builds(name):
    config = ARCHITECTURES[name]
    count = count_parameters(config)
    built = jax.eval_shape(lambda: jaxgpt.init(config, key=jax.random.key(0)))
    assert count.total == sum(bucket.total for bucket in count.buckets)
    assert count.total == sum(leaf.size for leaf in jax.tree.leaves(built))


@pytest.mark.parametrize("config", [ModelConfig.preset("gpt2-xl"), *ARCHITECTURES.values()])
def test_each_buckets_formula_evaluates_to_its_number(config):
    sizes = {
        "V": config.vocab_size, "T": config.context_length, "C": config.width,
        "H": config.heads, "K": config.kv_heads or config.heads,
        "D": config.head_size or config.width // config.heads,
        "F": config.ffn_width or 4 * config.width,
    }  # fmt: skip
    for bucket in count_parameters(config).buckets:
        value = sum(
            math.prod(sizes[part] if part in sizes else int(part) for part in product.split("·"))
            for product in bucket.formula.split(" + ")
        )
        assert value == (bucket.total if bucket.per_block is None else bucket.per_block), bucket.name
        if bucket.per_block is not None:
            encoder = bucket.name.startswith("encoder/")
            assert bucket.total == bucket.per_block * ((config.encoder_layers if encoder else None) or config.layers)


def test_the_buckets_follow_the_tree():
    names = [bucket.name for bucket in count_parameters(ModelConfig.preset("minigpt")).buckets]
    assert names == [
        "token_embedding", "position_embedding", "blocks/ln1", "blocks/attention", "blocks/ln2", "blocks/ffn",
        "final_norm", "lm_head",
    ]  # fmt: skip


def test_a_model_without_a_vocabulary_cannot_be_counted():
    with pytest.raises(RequestError, match=r"model.vocab_size is not set"):
        count_parameters(ModelConfig())
