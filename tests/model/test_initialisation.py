"""Parameters start as GPT-2's do, and adding one shifts no other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgpt
from jaxgpt import ModelConfig

CONFIG = ModelConfig(
    vocab_size=500, context_length=128, width=128, layers=3, heads=4, tied_head=False, head_bias=True
)


def leaves(config, seed=0):
    params = jaxgpt.init(config, key=jax.random.key(seed))
    found = jax.tree_util.tree_leaves_with_path(params)
    return {"/".join(key.key for key in path): np.asarray(leaf) for path, leaf in found}


@pytest.fixture(scope="module")
def params():
    return leaves(CONFIG)


def wanted_std(path):
    if path.endswith(("attention/out/kernel", "ffn/down/kernel")):
        return 0.02 / np.sqrt(2 * CONFIG.layers)
    return 0.02


def test_matrices_and_embeddings_are_normal_with_gpt2s_standard_deviations(params):
    """The standard deviation of n normal draws is off by 1/sqrt(2 n) of itself; five of those are allowed."""
    matrices = {path: leaf for path, leaf in params.items() if path.endswith(("kernel", "embedding"))}
    assert len(matrices) == 3 + 6 * CONFIG.layers
    for path, leaf in matrices.items():
        std, n = wanted_std(path), leaf.size
        assert abs(leaf.std() - std) < 5 * std / np.sqrt(2 * n), path
        assert abs(leaf.mean()) < 5 * std / np.sqrt(n), path
        beyond_two = (np.abs(leaf) > 2 * std).mean()  # 4.55 % of a normal's draws
        assert abs(beyond_two - 0.0455) < 5 * np.sqrt(0.0455 / n), path


def test_biases_start_at_zero_and_scales_at_one(params):
    vectors = {path: leaf for path, leaf in params.items() if path.endswith(("bias", "scale"))}
    assert len(vectors) == 3 + 10 * CONFIG.layers
    for path, leaf in vectors.items():
        np.testing.assert_array_equal(leaf, 1.0 if path.endswith("scale") else 0.0, err_msg=path)


def test_every_parameter_is_float32(params):
    assert {leaf.dtype for leaf in params.values()} == {np.dtype("float32")}


def test_no_two_matrices_start_equal(params):
    starts = [leaf.ravel()[:100].tobytes() for path, leaf in params.items() if path.endswith(("kernel", "embedding"))]
    assert len(set(starts)) == len(starts)


@pytest.mark.parametrize(
    "changes",
    [
        {"attention_bias": False, "ffn_bias": False, "norm_bias": False, "attention_out_bias": False},
        {"position": "none", "head_bias": False},
        {"tied_head": True},
    ],
)
def test_adding_or_removing_parameters_shifts_no_other(params, changes):
    other = leaves(CONFIG.replace(**changes))
    assert other.keys() != params.keys()
    for path in other.keys() & params.keys():
        np.testing.assert_array_equal(other[path], params[path], err_msg=path)


def test_a_deeper_model_begins_with_the_same_first_blocks(params):
    deeper = leaves(CONFIG.replace(layers=4))
    np.testing.assert_array_equal(deeper["blocks_2/ffn/up/kernel"], params["blocks_2/ffn/up/kernel"])


def test_another_key_draws_other_values(params):
    other = leaves(CONFIG, seed=1)
    for path, leaf in params.items():
        assert (leaf == other[path]).all() == path.endswith(("bias", "scale"))


def test_a_fresh_model_guesses_almost_uniformly():
    params = jaxgpt.init(CONFIG, key=jax.random.key(0))
    ids = np.random.default_rng(0).integers(0, 500, (2, 65))
    batch = {"token_ids_BT": ids[:, :-1], "target_ids_BT": ids[:, 1:], "weights_BT": jnp.ones((2, 64))}
    assert float(jax.jit(jaxgpt.loss)(CONFIG, params, batch)[0]) == pytest.approx(np.log(500), abs=0.1)
