"""A small model for the benchmark of generation, and results with times that one can reckon with."""

import numpy as np
import pytest
import reference_numpy
from small_models import random_parameters

from jaxgpt import ModelConfig
from jaxgpt.benchmark.decode.programs import choices_of
from jaxgpt.benchmark.decode.results import Group, Results, Row
from jaxgpt.benchmark.decode.workload import Model, Workload
from jaxgpt.benchmark.timing import Spread

CONFIG = ModelConfig(vocab_size=11, context_length=16, width=8, layers=1, heads=2)


@pytest.fixture(scope="session")
def model():
    return Model("tiny", "made by hand", CONFIG, random_parameters(CONFIG))


@pytest.fixture(scope="session")
def workload():
    """Two rows of 3 and 5 tokens."""
    return Workload(CONFIG, 2, 3, 5)


@pytest.fixture(scope="session")
def greedy(model, workload):
    """The greedy text by the float64 reference, as choices with their log-probabilities."""
    ids, nats = np.array(workload.prompts()), []
    for _ in range(workload.N):
        logits_BV = reference_numpy.forward(model.config, model.params, ids)[:, -1]
        ids = np.concatenate([ids, logits_BV.argmax(-1)[:, None]], axis=1)
        nats.append(logits_BV.max(-1) - np.log(np.exp(logits_BV).sum(-1)))
    return choices_of(workload, ids, np.stack(nats, axis=1))


def spread(seconds):
    return Spread(seconds, seconds / 2, seconds * 2, 9)


@pytest.fixture
def results(model, workload):
    """Return a function that makes results of {contestant: seconds of a step, or why there are none}."""

    def make(reading, times, prepare_seconds=1.0):
        rows = [
            Row(name, left_out=step, wrong=True)
            if isinstance(step, str)
            else Row(name, 2.0, first=spread(1.0), step=spread(step))
            for name, step in times.items()
        ]
        group = Group(workload, tuple(rows), spread(reading))
        return Results(model, (group,), prepare_seconds, 2, {"load_average": (0.5, 0.0, 0.0)})

    return make
