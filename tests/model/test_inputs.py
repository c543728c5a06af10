"""Padding, packing and a source: a row's result is that of its real tokens alone."""

import functools

import jax
import numpy as np
import pytest
from small_models import ARCHITECTURES, SMALL, random_ids, random_inputs, random_parameters

import jaxgpt
from jaxgpt import RequestError

ROPE = SMALL.replace(position="rope", heads=2, window=3)
PAIRS = ARCHITECTURES["encoder_decoder"]


@functools.cache
def forward(config):
    return jax.jit(functools.partial(jaxgpt.apply, config))


def close(got, wanted):
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert np.abs(got - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("config", [SMALL, ROPE, SMALL.replace(family="encoder")], ids=["learned", "rope", "encoder"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_either_side_changes_nothing(config, side):
    params, ids = random_parameters(config), random_ids(config, batch=2)
    mask = np.ones(ids.shape, bool)
    mask[1, :2] = side == "right"
    mask[1, -2:] = side == "left"
    padded = np.asarray(forward(config)(params, ids, mask_BT=mask))[1][mask[1]]
    close(padded, forward(config)(params, ids[1:, 2:] if side == "left" else ids[1:, :-2])[0])


@pytest.mark.parametrize("config", [SMALL, ROPE], ids=["learned", "rope"])
def test_packed_documents_are_as_if_alone(config):
    params, ids = random_parameters(config), random_ids(config, batch=1)
    together = np.asarray(forward(config)(params, ids, segment_ids_BT=np.array([[4, 4, 2, 2, 2, 2]])))[0]
    close(together[:2], forward(config)(params, ids[:, :2])[0])
    close(together[2:], forward(config)(params, ids[:, 2:])[0])


def test_an_id_that_comes_again_is_another_document():
    params, ids = random_parameters(SMALL), random_ids(SMALL, batch=1)
    again, other = (forward(SMALL)(params, ids, segment_ids_BT=np.array([[7, 7, 8, 8, x, x]])) for x in (7, 9))
    np.testing.assert_array_equal(again, other)


def test_given_positions_are_used_instead():
    params, ids = random_parameters(SMALL), random_ids(SMALL, batch=1, length=3)
    shifted = forward(SMALL)(params, ids, positions_BT=np.array([[1, 2, 3]]))
    moved = params | {"position_embedding": np.roll(params["position_embedding"], -1, axis=0)}
    close(shifted, forward(SMALL)(moved, ids))


def test_an_encoder_sees_both_sides_and_a_decoder_one():
    ids = random_ids(SMALL, batch=1)
    changed = ids.copy()
    changed[0, 4] = (ids[0, 4] + 1) % 11
    for family, sees in (("encoder", True), ("decoder", False)):
        config = SMALL.replace(family=family)
        params = random_parameters(config)
        before, after = forward(config)(params, ids), forward(config)(params, changed)
        assert (np.asarray(before[0, 0]) != np.asarray(after[0, 0])).any() == sees


def test_the_decoder_reads_the_whole_source_but_not_its_padding():
    params, inputs = random_parameters(PAIRS), random_inputs(PAIRS)
    before = forward(PAIRS)(params, **inputs)

    def after(place):
        source = inputs["source_ids_BS"].copy()
        source[0, place] = (source[0, place] + 1) % 11
        return forward(PAIRS)(params, **inputs | {"source_ids_BS": source})

    np.testing.assert_array_equal(before, after(4))
    assert (np.asarray(before[0, 0]) != np.asarray(after(2)[0, 0])).any()


def test_gradients_are_finite_when_a_row_is_nothing_but_padding():
    config = SMALL.replace(layers=1)
    batch = {name: random_ids(config) for name in ("token_ids_BT", "target_ids_BT")}
    real = np.array([[1] * 6, [0] * 6])
    batch |= {"weights_BT": real.astype(np.float32), "mask_BT": real}
    gradients = jax.jit(jax.grad(lambda p: jaxgpt.loss(config, p, batch)[0]))(random_parameters(config))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))


@pytest.mark.ci
def test_cross_attention_drops_with_keys_of_its_own():
    config = PAIRS.replace(layers=1, attention_dropout=0.5, residual_dropout=0.5)
    params, inputs = random_parameters(config), random_inputs(config)
    key = jax.random.key(0)
    _, seen = jax.jit(functools.partial(jaxgpt.apply, config, trace=True))(params, **inputs, dropout_key=key)
    updates = [
        seen[f"{place}/update"] for place in ("blocks_0/attention", "blocks_0/cross_attention", "blocks_0/ffn")
    ]
    dropped = [np.asarray(update) == 0 for update in (*updates, seen["encoder/blocks_0/attention/update"][:, :5])]
    assert all(0.3 < part.mean() < 0.7 for part in dropped)
    assert (dropped[0] != dropped[1]).any()
    assert (dropped[0][:, :5] != dropped[3]).any()


@pytest.mark.parametrize(
    ("config", "changes", "words"),
    [
        (SMALL, {"source_ids_BS": random_ids(SMALL)}, "family decoder reads no source"),
        (PAIRS, {"source_ids_BS": None}, "source_ids_BS is missing"),
        (PAIRS, {"segment_ids_BT": random_ids(PAIRS, 3)}, "one source per row"),
        (PAIRS, {"source_ids_BS": random_ids(PAIRS, 2, 5)}, r"source_ids_BS: expected shape \[B=3, S\]"),
        (PAIRS, {"source_ids_BS": random_ids(PAIRS, 3, 7)}, "source_ids_BS has 7 positions"),
        (PAIRS, {"source_ids_BS": np.full((3, 5), 11)}, r"source_ids_BS\[0, 0\] is 11, outside the vocabulary"),
        (SMALL, {"mask_BT": np.ones((3, 5), bool)}, r"mask_BT: expected shape \[B=3, T=6\]"),
        (SMALL, {"mask_BT": np.ones((3, 6), np.float32)}, "expected booleans"),
        (
            SMALL.replace(position="none"),
            {"positions_BT": np.zeros((3, 6), int)},
            "means nothing for a model without",
        ),
        (ROPE, {"mask_BT": np.array([[1] * 6, [1, 0, 0, 1, 1, 1], [1] * 6])}, "row 1 has padding between its real"),
        (SMALL, {"positions_BT": np.full((3, 6), 6)}, r"positions_BT\[0, 0\] is 6, outside the context 0..5"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(config, changes, words):
    with pytest.raises(RequestError, match=words):
        jaxgpt.apply(config, random_parameters(config), **random_inputs(config) | changes)
