"""The parameter tree: the names of the design, and one tree whoever builds it."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_models import SMALL

import jaxgpt
from jaxgpt import ModelConfig
from jaxgpt.config import RequestError
from jaxgpt.model.modules import MultiHeadAttention
from jaxgpt.model.parameters import abstract_parameters, decay_mask, path_number
from jaxgpt.model.specs import parameter_specs, walk

SWITCHES = ("attention_bias", "attention_out_bias", "ffn_bias", "norm_bias", "head_bias", "tied_head")
TINY = ModelConfig(vocab_size=7, context_length=5, width=6, layers=2, heads=3, ffn_width=4)
IDS = jnp.zeros((1, 2), jnp.int32)


def shapes(tree):
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {"/".join(key.key for key in path): (leaf.shape, leaf.dtype) for path, leaf in leaves}


def designed_shapes(config):
    """The tree as the design writes it, for any choice of biases, head and positions."""
    V, T, C, H, D, F = 7, 5, 6, 3, 2, 4
    tree = {"token_embedding": (V, C)}
    if config.position == "learned":
        tree["position_embedding"] = (T, C)

    def norm(path):
        tree[f"{path}/scale"] = (C,)
        if config.norm_bias:
            tree[f"{path}/bias"] = (C,)

    def projection(path, inputs, outputs, bias):
        tree[f"{path}/kernel"] = (*inputs, *outputs)
        if bias:
            tree[f"{path}/bias"] = outputs

    for block in ("blocks_0", "blocks_1"):
        norm(f"{block}/ln1")
        for name in "qkv":
            projection(f"{block}/attention/{name}", (C,), (H, D), config.attention_bias)
        projection(f"{block}/attention/out", (H, D), (C,), config.attention_out_bias)
        norm(f"{block}/ln2")
        projection(f"{block}/ffn/up", (C,), (F,), config.ffn_bias)
        projection(f"{block}/ffn/down", (F,), (C,), config.ffn_bias)
    norm("final_norm")
    if not config.tied_head:
        tree["lm_head/kernel"] = (C, V)
    if config.head_bias:
        tree["lm_head/bias"] = (V,)
    return tree


COMBINATIONS = [
    TINY.replace(position=position, **dict(zip(SWITCHES, switches, strict=True)))
    for position in ("learned", "none")
    for switches in itertools.product((False, True), repeat=len(SWITCHES))
]


def test_the_tree_is_the_designed_one_for_every_choice_of_biases_head_and_positions():
    assert len(COMBINATIONS) == 128
    for config in COMBINATIONS:
        assert {path: spec.shape for path, spec in walk(parameter_specs(config))} == designed_shapes(config)


@pytest.mark.parametrize("config", COMBINATIONS[::9])
def test_specs_init_module_and_abstract_tree_are_one_tree(config):
    wanted = {path: (shape, jnp.float32) for path, shape in designed_shapes(config).items()}
    key = jax.random.key(0)
    assert shapes(abstract_parameters(config)) == wanted
    assert shapes(jax.eval_shape(lambda: jaxgpt.init(config, key=key))) == wanted
    assert shapes(jax.eval_shape(lambda: jaxgpt.Transformer(config).init(key, IDS))["params"]) == wanted


@pytest.mark.parametrize(
    "name", ["gpt2", *(pytest.param(name, marks=pytest.mark.ci) for name in ("gpt2-medium", "gpt2-large")), "gpt2-xl"]
)
def test_gpt2_has_the_same_tree_from_specs_init_and_module(name):
    config = ModelConfig.preset(name)
    key = jax.random.key(0)
    wanted = shapes(abstract_parameters(config))
    assert shapes(jax.eval_shape(lambda: jaxgpt.init(config, key=key))) == wanted
    assert shapes(jax.eval_shape(lambda: jaxgpt.Transformer(config).init(key, IDS))["params"]) == wanted
    assert len(wanted) == 4 + 16 * config.layers


def test_a_module_draws_with_the_same_distribution_as_init():
    x_BTC = jnp.zeros((1, 2, SMALL.width))
    params = MultiHeadAttention(SMALL).init(jax.random.key(0), x_BTC)["params"]
    assert 0.015 < float(params["q"]["kernel"].std()) < 0.025
    assert 0.0075 < float(params["out"]["kernel"].std()) < 0.0125  # two layers: 0.02 / sqrt(4)
    np.testing.assert_array_equal(params["q"]["bias"], 0)
    assert (params["q"]["kernel"] != params["k"]["kernel"]).all()


def test_an_init_tree_is_plain_nested_dictionaries():
    params = jax.eval_shape(lambda: jaxgpt.init(TINY, key=jax.random.key(0)))
    assert type(params) is type(params["blocks_0"]) is type(params["blocks_0"]["ffn"]["up"]) is dict


def test_matrices_and_embeddings_decay_and_biases_and_norms_do_not():
    mask = decay_mask(TINY.replace(tied_head=False, head_bias=True))
    decayed = {"/".join(k.key for k in path) for path, decay in jax.tree_util.tree_leaves_with_path(mask) if decay}
    every = set(designed_shapes(TINY.replace(tied_head=False, head_bias=True)))
    assert decayed == {path for path in every if path.endswith(("kernel", "embedding"))}
    assert {path.rsplit("/")[-1] for path in every - decayed} == {"scale", "bias"}


def test_no_two_parameters_of_gpt2_xl_share_a_number():
    config = ModelConfig.preset("gpt2-xl").replace(tied_head=False, head_bias=True)
    paths = [path for path, _ in walk(parameter_specs(config))]
    assert len({path_number(path) for path in paths}) == len(paths) == 4 + 16 * 48 + 2


def test_a_path_has_the_same_number_in_every_process():
    # The first four bytes of SHA-256, as `printf token_embedding | sha256sum` prints them.
    assert path_number("token_embedding") == 0x9386EF6F


def test_an_architecture_without_a_vocabulary_has_no_parameters_yet():
    with pytest.raises(RequestError, match=r"model.vocab_size is not set: take it from the tokenizer"):
        jaxgpt.init(TINY.replace(vocab_size=None), key=jax.random.key(0))
