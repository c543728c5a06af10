"""Programs take turns, in an order drawn each round, while the budget lasts; percentiles are those of the times."""

import pytest

from jaxgpt.benchmark import timing
from jaxgpt.benchmark.timing import LEAST_ROUNDS, MOST_ROUNDS, spread, time_in_turn


class Clock:
    """A clock that only programs move."""

    def __init__(self, monkeypatch):
        self.now, self.log = 0.0, []
        monkeypatch.setattr(timing.time, "perf_counter", lambda: self.now)

    def program(self, name, seconds):
        def call():
            self.now += seconds[min(len(self.called(name)), len(seconds) - 1)]
            self.log.append(name)

        return call

    def called(self, name):
        return [entry for entry in self.log if entry == name]


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def test_percentiles_of_known_numbers():
    assert spread([float(n) for n in range(11)]) == (5.0, 1.0, 9.0, 11)


def test_every_round_has_an_order_of_its_own(clock):
    time_in_turn({name: clock.program(name, [1.0]) for name in "abc"}, 100.0)
    calls = "".join(clock.log[12:])  # after three calls of each that warm up, and one by which rounds are reckoned
    rounds = [calls[n : n + 3] for n in range(0, len(calls), 3)]
    assert len(rounds) == 100
    assert set(rounds) == {"abc", "acb", "bac", "bca", "cab", "cba"}


def test_the_warm_up_does_not_count(clock):
    slow_at_first = clock.program("a", [9.0, 9.0, 9.0, 9.0, 1.0])  # three calls, and one round
    assert time_in_turn({"a": slow_at_first}, 0.1)["a"] == (1.0, 1.0, 1.0, LEAST_ROUNDS)


def test_the_budget_decides_the_rounds(clock):
    spreads = time_in_turn({"a": clock.program("a", [1.0]), "b": clock.program("b", [3.0])}, 10.0)
    assert {name: one.calls for name, one in spreads.items()} == {"a": 5, "b": 5}  # 20 seconds, 4 a round


def test_a_turn_of_a_short_program_is_several_calls_and_its_first_is_left_out(clock):
    spreads = time_in_turn({"a": clock.program("a", [1 / 512])}, 1e9)
    assert spreads["a"].calls == MOST_ROUNDS * (5 - 1)  # 5 of them in a hundredth of a second
