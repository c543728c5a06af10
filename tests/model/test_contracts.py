"""What apply and loss refuse, and in which words."""

import jax
import numpy as np
import pytest
from small_models import SMALL, random_batch, random_ids, random_parameters

import jaxgpt
from jaxgpt.config import RequestError
from jaxgpt.model.modules import Block, FeedForward

PARAMS, IDS, BATCH = random_parameters(SMALL), random_ids(SMALL), random_batch(SMALL)


def changed(**entries):
    return {**PARAMS, **entries}


@pytest.mark.parametrize(
    ("params", "ids", "words"),
    [
        (
            PARAMS,
            np.zeros((1, 7), int),
            "has 7 positions, but model.context_length is 6; pass at most the last",
        ),
        (PARAMS, IDS[0], r"expected token ids of shape \[B, T\], got \[6\]; a single sequence becomes"),
        (PARAMS, IDS.tolist(), r"expected an array of token ids, got list; use np.array\(ids\)"),
        (PARAMS, IDS.astype(float), "expected token ids as integers, got float64"),
        (PARAMS, np.array([["a"]]), "expected token ids as integers, got <U1; encode the text"),
        (PARAMS, np.array([[0, 3, 11]]), r"token_ids_BT\[0, 2\] is 11, outside the vocabulary 0..10"),
        (PARAMS, np.array([[0], [-1]]), r"token_ids_BT\[1, 0\] is -1, outside the vocabulary 0..10"),
        ([1, 2], IDS, "params: expected a nested dict of arrays, got list"),
        ({"params": PARAMS}, IDS, r"missing token_embedding \[11, 12\]; .* and \d+ more"),
        (changed(lm_head={"bias": np.zeros(11)}), IDS, r"fit the architecture: surplus lm_head/bias \[11\]$"),
        (changed(token_embedding=np.zeros((12, 11))), IDS, r"token_embedding is \[12, 11\], expected \[11, 12\]$"),
        (
            {k: v for k, v in PARAMS.items() if k != "final_norm"},
            IDS,
            r"missing final_norm/scale \[12\]; missing",
        ),
    ],
)
def test_apply_refuses_what_does_not_fit(params, ids, words):
    with pytest.raises(RequestError, match=words):
        jaxgpt.apply(SMALL, params, ids)


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ({"token_id_BT": IDS}, "batch has an unknown field 'token_id_BT'; did you mean 'token_ids_BT'"),
        ({"token_ids_BT": IDS}, "batch lacks target_ids_BT, weights_BT; expected the fields token_ids_BT, target"),
        (BATCH | {"weights_BT": np.ones(6)}, r"weights_BT: expected shape \[B=2, T=6\], got \[6\]"),
        (BATCH | {"target_ids_BT": IDS[:, :3]}, r"target_ids_BT: expected shape \[B=2, T=6\], got \[2, 3\]"),
        (BATCH | {"token_ids_BT": IDS[0]}, r"token_ids_BT: expected token ids of shape \[B, T\], got \[6\]"),
        (BATCH | {"target_ids_BT": IDS * 1.0}, "target_ids_BT: expected token ids as integers, got float64"),
        (BATCH | {"target_ids_BT": IDS * 0 - 100}, r"target_ids_BT\[0, 0\] is -100, outside the vocabulary"),
    ],
)
def test_loss_refuses_what_does_not_fit(batch, words):
    with pytest.raises(RequestError, match=words):
        jaxgpt.loss(SMALL, PARAMS, batch)


def test_the_contracts_hold_while_a_program_is_traced():
    with pytest.raises(RequestError, match="has 7 positions"):
        jax.jit(jaxgpt.apply)(SMALL, PARAMS, np.zeros((1, 7), int))
    with pytest.raises(RequestError, match="surplus lm_head/bias"):
        jax.jit(jaxgpt.apply)(SMALL, changed(lm_head={"bias": np.zeros(11)}), IDS)


def test_an_id_outside_the_vocabulary_gives_nan_in_a_compiled_program():
    ids = IDS.copy()
    ids[1, 3] = 11
    logits = np.asarray(jax.jit(jaxgpt.apply)(SMALL, PARAMS, ids))
    assert np.isnan(logits[1, 3]).all()
    assert np.isfinite(logits[0]).all()


@pytest.mark.parametrize("tree", ["numpy", "jax"])
def test_parameters_may_be_numpy_or_jax_arrays(tree):
    params = jax.tree.map(np.asarray if tree == "numpy" else jax.numpy.asarray, PARAMS)
    assert np.isfinite(jaxgpt.apply(SMALL, params, IDS)).all()


@pytest.mark.parametrize("module", [Block(SMALL), FeedForward(SMALL)])
def test_a_module_alone_refuses_another_width(module):
    with pytest.raises(RequestError, match=r"_BTC: expected shape \[B, T, C=12\], got \[1, 2, 8\]"):
        module.init(jax.random.key(0), np.zeros((1, 2, 8), np.float32))


def test_a_block_is_a_pure_function_of_its_subtree():
    x = np.random.default_rng(0).standard_normal((1, 4, 12)).astype(np.float32)
    assert Block(SMALL).apply({"params": PARAMS["blocks_1"]}, x).shape == (1, 4, 12)


def test_keys_and_options_are_keyword_only():
    with pytest.raises(TypeError):
        jaxgpt.init(SMALL, jax.random.key(0))
    with pytest.raises(TypeError):
        jaxgpt.apply(SMALL, PARAMS, IDS, jax.random.key(0))
