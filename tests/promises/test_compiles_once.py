"""A whole run compiles its train step once and its evaluation once."""

import logging
import re

import jax
from small_training import TEXT, TINY

from jaxgpt.config import RunConfig, apply_settings
from jaxgpt.training.run import train


def test_a_run_with_evaluations_and_saves_compiles_each_program_once(tmp_path, caplog):
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    settings = TINY | {"data.path": str(text), "train.eval_every": 2}
    with jax.log_compiles(True), caplog.at_level(logging.WARNING):
        train(apply_settings(RunConfig(), settings, "test"), out=tmp_path / "run")
    compiled = re.findall(r"Finished XLA compilation of jit\((\w+)\)", caplog.text)
    assert compiled.count("train_step") == 1
    assert compiled.count("evaluation_step") == 1
    assert compiled[-2:] == ["train_step", "evaluation_step"]  # nothing is left to compile between steps
