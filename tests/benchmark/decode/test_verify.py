"""Choices are held against float64: right ones pass, a wrong token or log-probability does not."""

import numpy as np
import pytest

from jaxgpt.benchmark.decode.verify import Check


@pytest.fixture(scope="module")
def check(model, workload):
    return Check(model.params, workload)


def changed(array, at, by):
    array = array.copy()
    array[at] += by
    return array


def test_the_greedy_text_passes(check, greedy):
    assert check.verdict(greedy) == (None, 0)


def test_a_wrong_token_is_named(check, greedy):
    right = int(greedy.chosen_BN[1, 2])
    wrong = greedy._replace(chosen_BN=changed(greedy.chosen_BN, (1, 2), -right + (right + 1) % 11))
    refusal = f"token 5 of row 1 is {(right + 1) % 11}; a pass over the whole text takes {right}"
    assert check.verdict(wrong).refusal == f"wrong result: {refusal}"


def test_log_probabilities_that_are_off_are_refused(check, greedy):
    for by, refused in ((3e-6, False), (3e-5, True)):
        off = by * np.abs(greedy.nats_BN).max()
        refusal = check.verdict(greedy._replace(nats_BN=changed(greedy.nats_BN, (0, 4), off))).refusal
        assert (refusal is not None) == refused
    assert refusal.startswith("wrong result: log-probabilities off by ")


def test_no_number_is_no_right_one(check, greedy):
    assert check.verdict(greedy._replace(nats_BN=greedy.nats_BN * np.nan)).refusal is not None


def test_too_few_tokens_are_refused(check, greedy):
    assert (
        "got tokens (2, 4), expected (2, 5)" in check.verdict(greedy._replace(chosen_BN=greedy.chosen_BN[:, 1:]))[0]
    )


def test_either_of_two_that_lie_close_will_do_and_is_counted(model, workload, greedy):
    best = int(greedy.chosen_BN[0, 0])
    twin = next(token for token in range(11) if token not in greedy.ids_BT)  # no text holds it, so no text changes
    rows = model.params["token_embedding"].copy()
    rows[twin] = rows[best] * (1 + 1e-6)
    check = Check(model.params | {"token_embedding": rows}, workload)
    either = changed(greedy.chosen_BN, (0, 0), twin - best)
    counts = {check.verdict(greedy._replace(chosen_BN=chosen, nats_BN=None)) for chosen in (greedy.chosen_BN, either)}
    assert {verdict.refusal for verdict in counts} == {None}
    assert len({verdict.close for verdict in counts}) == 2
