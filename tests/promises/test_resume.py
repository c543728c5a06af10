"""Stopped and resumed = never stopped, bitwise: parameters, moments, logged losses; with dropout and accumulation."""

import jax
import numpy as np
import pytest
from repeatable import repeatable_metrics

from jaxgpt.config import RunConfig, apply_settings
from jaxgpt.training.run import train

SETTINGS = {
    "model.attention_bias": False,  # the fewer parameters, the sooner the train step is compiled
    "model.attention_out_bias": False,
    "model.ffn_bias": False,
    "model.norm_bias": False,
    "model.context_length": 8,
    "model.width": 16,
    "model.layers": 1,
    "model.heads": 2,
    "model.embedding_dropout": 0.1,
    "model.attention_dropout": 0.1,
    "model.residual_dropout": 0.1,
    "train.steps": 9,
    "train.batch_size": 6,
    "train.accumulate": 3,
    "train.eval_every": 4,
    "train.eval_batches": 2,
    "train.save_every": 5,
    "train.log_every": 1,
    "train.sample_tokens": 0,
    "optimizer.warmup_steps": 2,
}


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    text = tmp_path_factory.mktemp("text") / "text.txt"
    text.write_text("".join(chr(97 + i * i % 26) for i in range(200)))  # 172 windows: an epoch ends inside the run
    return SETTINGS | {"data.path": str(text), "train.steps": 40}


@pytest.fixture(scope="module")
def uninterrupted(settings, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    return train(apply_settings(RunConfig(), settings, "test"), out=out), repeatable_metrics(out)


STOPS = [[3, 20, 33], *(pytest.param([step], marks=pytest.mark.ci) for step in (1, 5, 8))]


@pytest.mark.parametrize("stops", STOPS, ids=str)
def test_a_run_stopped_anywhere_ends_bit_for_bit_as_if_it_had_not_been(settings, uninterrupted, tmp_path, stops):
    for stop in [*stops, None]:
        config = apply_settings(RunConfig(), settings | {"train.stop_after": stop}, "test")
        state = train(config, out=tmp_path / "run")
    whole, lines = uninterrupted
    leaves = zip(jax.tree.leaves(state), jax.tree.leaves(whole), strict=True)
    assert all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in leaves)
    assert repeatable_metrics(tmp_path / "run") == lines
    assert len(lines) == 40 + 10
