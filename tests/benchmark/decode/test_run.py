"""A wrong contestant is refused and not timed; so is one whose log-probabilities alone are wrong."""

import numpy as np
import pytest

from jaxgpt import RequestError
from jaxgpt.benchmark.decode.contestants import Contestant
from jaxgpt.benchmark.decode.peer import check_peers
from jaxgpt.benchmark.decode.programs import Program, Timed, sampled_steps
from jaxgpt.benchmark.decode.run import timed_group


def scripted(name, choices, with_nats, calls):
    """A contestant that always chooses the same, and says when it is called."""

    def call():
        calls.append(name)
        return Timed(2.0, 1.0, choices)

    return Contestant(name, lambda workload: Program(call, lambda: with_nats))


def test_what_is_wrong_is_not_timed_and_what_is_right_is(model, workload, greedy):
    wrong = greedy._replace(chosen_BN=(greedy.chosen_BN + 1) % 11)
    off, calls = greedy._replace(nats_BN=1.01 * greedy.nats_BN), []
    entrants = [
        scripted("right", greedy, greedy, calls),
        scripted("wrong", wrong, greedy, calls),
        scripted("off", greedy, off, calls),
        Contestant("cannot", None, refusal="has no such thing"),
    ]
    group = timed_group(workload, entrants, model.params, 3, lambda message: None)
    rows = {row.contestant: row for row in group.rows}
    assert [name for name, row in rows.items() if row.wrong] == ["wrong", "off"]
    assert [name for name, row in rows.items() if row.step] == ["right"]
    assert calls.count("right") > calls.count("wrong") + 2
    assert rows["right"].step.median == 1.0
    assert rows["right"].first.median == 2.0
    assert rows["cannot"].left_out == "has no such thing"
    assert group.reading.median > 0


def test_the_steps_that_stand_for_all_are_spread_over_them():
    assert sampled_steps(1) == [1]
    assert sampled_steps(4) == [1, 2, 3, 4]
    assert np.mean(sampled_steps(1000)) == pytest.approx(501)


def test_peers_that_are_missing_are_refused_before_the_work(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RequestError, match="--peers needs torch and transformers: pip install 'jaxgpt"):
        check_peers()
