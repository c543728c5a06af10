"""Dropout in the model: no key none, one key one result, every site its own, remat the same."""

import jax
import numpy as np
import pytest
import reference_numpy
from small_models import ARCHITECTURES, SMALL, random_batch, random_ids, random_parameters

import jaxgpt
from jaxgpt import ExecutionConfig

RATES = ("embedding_dropout", "attention_dropout", "residual_dropout")
DROPPED = SMALL.replace(**dict.fromkeys(RATES, 0.5))
PARAMS, IDS, KEY = random_parameters(SMALL), random_ids(SMALL), jax.random.key(7)


def apply(config, ids=IDS, key=None):
    return jaxgpt.apply(config, PARAMS, ids, dropout_key=key)


def seen(config, key):
    return jaxgpt.apply(config, PARAMS, IDS, dropout_key=key, trace=True)[1]


def test_without_a_key_there_is_no_dropout():
    np.testing.assert_array_equal(apply(DROPPED), apply(SMALL))


@pytest.mark.ci
def test_the_same_key_gives_the_same_result_and_another_key_another():
    first = apply(DROPPED, key=KEY)
    np.testing.assert_array_equal(first, apply(DROPPED, key=KEY))
    other = apply(DROPPED, key=jax.random.key(8))
    assert reference_numpy.relative_error(first, other) > 0.01


def test_a_key_changes_nothing_where_every_rate_is_zero():
    np.testing.assert_array_equal(apply(SMALL, key=KEY), apply(SMALL))


def mask_of(dropped, plain):
    """True where kept; each element must be 0 or twice what it was."""
    dropped, plain = np.asarray(dropped), np.asarray(plain)
    kept = dropped != 0
    np.testing.assert_allclose(dropped[kept], 2 * plain[kept], rtol=1e-5, atol=1e-6)
    assert 0.2 < kept.mean() < 0.8
    return kept


def test_embedding_dropout_falls_on_the_summed_embeddings():
    config = SMALL.replace(embedding_dropout=0.5)
    mask_of(seen(config, KEY)["residual_0"], seen(config, None)["residual_0"])


def test_residual_dropout_falls_on_each_update_with_its_own_mask():
    config = SMALL.replace(residual_dropout=0.5)
    with_key = seen(config, KEY)
    masks = []
    for i in range(config.layers):
        for name in ("attention", "ffn"):
            update = with_key[f"blocks_{i}/{name}/update"]
            source = {
                "attention": lambda i=i: project(with_key[f"blocks_{i}/attention/heads"], i, "attention", "out"),
                "ffn": lambda i=i: project(with_key[f"blocks_{i}/ffn/hidden"], i, "ffn", "down"),
            }[name]()
            masks.append(mask_of(update, source))
    assert len({mask.tobytes() for mask in masks}) == 4


def project(x, layer, part, name):
    params = PARAMS[f"blocks_{layer}"][part][name]
    kernel = params["kernel"].reshape(-1, SMALL.width)
    return np.asarray(x).reshape(*x.shape[:2], -1) @ kernel + params["bias"]


def test_attention_dropout_falls_on_the_weights_after_the_trace_sees_them():
    config = SMALL.replace(attention_dropout=0.5)
    with_key, without = seen(config, KEY), seen(config, None)
    np.testing.assert_array_equal(with_key["blocks_0/attention/weights"], without["blocks_0/attention/weights"])
    heads, heads_without = (trace["blocks_0/attention/heads"] for trace in (with_key, without))
    assert reference_numpy.relative_error(heads, heads_without) > 0.1


def test_each_row_of_the_batch_has_its_own_masks():
    same_rows = np.repeat(IDS[:1], 2, axis=0)
    logits = apply(DROPPED, same_rows, KEY)
    assert reference_numpy.relative_error(logits[0], logits[1]) > 0.01


def test_rematerialised_blocks_give_the_same_loss_and_gradients_with_dropout():
    few_parameters = ARCHITECTURES["no biases, no positions"]
    config = few_parameters.replace(layers=1, residual_dropout=0.5)
    params, batch = random_parameters(config), random_batch(config)

    @jax.jit
    def step(execution):
        def loss(params):
            return jaxgpt.loss(config, params, batch, dropout_key=KEY, execution=execution)[0]

        return jax.value_and_grad(loss)(params)

    plain, remat = step(ExecutionConfig()), step(ExecutionConfig(remat=True))
    assert float(remat[0]) == pytest.approx(float(plain[0]), rel=1e-6)
    assert reference_numpy.tree_error(*map(jax.tree.leaves, (remat[1], plain[1]))) < 1e-6


def test_remat_marks_every_block_for_recomputation():
    def program(execution):
        return str(jax.make_jaxpr(lambda p: jaxgpt.apply(SMALL, p, IDS, execution=execution))(PARAMS))

    assert program(ExecutionConfig(remat=True)).count("= remat2[") == SMALL.layers
    assert "remat2" not in program(ExecutionConfig())
