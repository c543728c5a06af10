"""A run that is killed at any moment and continued ends bit for bit as one that was left alone.

`python bench/endurance.py` does the same at fifty moments.
"""

import random

import pytest
from whole_runs import SETTINGS, Traces, Workshop, kill_and_continue, moments

pytestmark = pytest.mark.ci  # a dozen processes that import JAX

SHORT = SETTINGS | {"train.steps": 60, "optimizer.warmup_steps": 5}


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    return Workshop(tmp_path_factory.mktemp("workshop"), SHORT)


@pytest.fixture(scope="module")
def whole(workshop):
    """What a whole run leaves, and the seconds that one takes whose programs are kept."""
    first, _ = Traces.of_whole(workshop, "first")
    again, seconds = Traces.of_whole(workshop, "again")
    again.check_same(first)
    return first, seconds


@pytest.mark.parametrize("number", range(4))
def test_a_killed_run_goes_on_from_its_newest_checkpoint_and_ends_as_if_it_had_not_been(workshop, whole, number):
    traces, seconds = whole
    moment, after = list(moments(workshop, 4, seconds, random.Random(6)))[number]
    kill_and_continue(workshop, str(number), moment, after, traces)
