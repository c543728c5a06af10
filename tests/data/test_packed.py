"""Documents in one window stay apart: a packed window's loss is that of its documents alone."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_models import SMALL, random_parameters
from small_training import largest, largest_difference

import jaxgpt
from jaxgpt.data.examples import Windows
from jaxgpt.data.strided import StridedWindows

END = 9
DOCUMENTS = [[1, 2, 3], [4], [5, 6, 7, 8]]


def stream(documents):
    return np.array([token for document in documents for token in [*document, END]], np.uint16)


def all_windows(ids_N, length, **options):
    windows = Windows(ids_N, context_length=length, end_id=END, **options)
    every = np.arange(windows.count)
    return windows.batch(every, seed=0, draws_B=every)


@given(st.lists(st.lists(st.integers(0, 8), max_size=4), min_size=3, max_size=9))
def test_each_window_s_segments_are_its_documents_and_no_end_token_predicts(documents):
    ids_N = stream(documents)
    document_N = np.repeat(np.arange(len(documents)), [len(document) + 1 for document in documents])
    if len(ids_N) < 4:
        return
    batch = all_windows(ids_N, 3)
    for start, segments_T in enumerate(batch["segment_ids_BT"]):
        expected_T = document_N[start : start + 3]
        assert (np.diff(segments_T) == np.diff(expected_T)).all()
        assert segments_T[0] == 0
    assert (batch["weights_BT"] == (batch["token_ids_BT"] != END)).all()
    counted = batch["weights_BT"] == 1
    assert (
        document_N[np.arange(len(counted))[:, None] + np.arange(3)][counted]
        == document_N[np.arange(len(counted))[:, None] + np.arange(1, 4)][counted]
    ).all()


def test_without_an_end_token_nothing_is_added():
    assert "segment_ids_BT" not in Windows(np.arange(9, dtype=np.int32), context_length=4).batch(
        np.array([0]), seed=0, draws_B=np.array([0])
    )


def test_the_types_are_those_that_the_model_reads():
    types = {name: array.dtype.name for name, array in all_windows(stream(DOCUMENTS), 5).items()}
    ids = dict.fromkeys(("token_ids_BT", "target_ids_BT", "segment_ids_BT"), "int32")
    assert types == ids | {"weights_BT": "float32"}


def test_a_strided_window_counts_neither_old_tokens_nor_end_tokens():
    ids_N = stream(DOCUMENTS)  # 1 2 3 E 4 E 5 6 7 8 E
    windows = StridedWindows(ids_N, context_length=6, stride=4, end_id=END)
    batch = windows.batch(windows.tiling, seed=0, draws_B=windows.tiling)
    assert batch["weights_BT"].tolist() == [[1, 1, 1, 0, 1, 0], [0, 0, 1, 1, 1, 1]]


@pytest.mark.parametrize("position", ["learned", pytest.param("rope", marks=pytest.mark.ci)])
def test_the_loss_of_a_packed_window_and_its_gradient_are_those_of_its_documents_alone(position):
    ids_N = stream(DOCUMENTS)
    config = SMALL.replace(vocab_size=10, context_length=len(ids_N) - 1, position=position, layers=1)
    params = random_parameters(config)
    alone_BT = np.array([(*document, END, 0, 0, 0, 0)[:6] for document in DOCUMENTS])  # what follows is not seen
    lengths_B = np.array([len(document) for document in DOCUMENTS])
    alone = {
        "token_ids_BT": alone_BT[:, :-1],
        "target_ids_BT": alone_BT[:, 1:],
        "weights_BT": (np.arange(5) < lengths_B[:, None]).astype(np.float32),
    }

    @jax.jit
    def loss_and_gradient(params, batch):
        return jax.value_and_grad(lambda params: jaxgpt.loss(config, params, batch)[1]["loss_sum"])(params)

    loss, gradient = loss_and_gradient(params, all_windows(ids_N, config.context_length))
    expected, expected_gradient = loss_and_gradient(params, alone)
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)
    assert largest_difference(gradient, expected_gradient) < 1e-5 * largest(expected_gradient)
