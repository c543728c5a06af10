"""Spoilt lines of metrics: numbers at steps that can be logged, drawn and cut back, or one message."""

from __future__ import annotations

import json
import math

from fuzzing import CHANGES, fuzz, fuzzed, one_message, spoilt

from jaxgpt.config import ModelConfig, RequestError, RunConfig
from jaxgpt.runs.curves import read_curves, warnings
from jaxgpt.runs.directory import RunDirectory
from jaxgpt.runs.inspection import inspect
from jaxgpt.runs.manifest import Manifest
from jaxgpt.runs.metrics import MetricsLog, read_metrics

SOUND = "".join(
    json.dumps(line) + "\n"
    for line in (
        {"step": 1, "loss": 4.25, "grad_norm": "inf", "token_count": 128.0},
        {"step": 2, "loss": "nan", "learning_rate": 6e-4},
        {"step": 2, "validation_loss": 3.5, "validation_standard_error": 0.1},
    )
).encode()


@fuzzed
def test_a_spoilt_log_is_numbers_or_one_message(tmp_path, examples):
    run = RunDirectory.create(tmp_path / "run", Manifest(config=RunConfig(model=ModelConfig(vocab_size=5))))

    def check(changes):
        run.metrics_path.write_bytes(spoilt(SOUND, changes))
        try:
            curves = read_curves([run.path], field="loss", smooth=2)
            warnings(curves, "loss")
            lines = inspect(run.path).lines
            with MetricsLog(run) as log:
                log.cut_back(1)
        except RequestError as error:
            one_message(error)
            return
        values = [pair for line in lines for pair in line.items()]
        assert all(type(value) is (int if name == "step" else float) for name, value in values)
        assert str(read_metrics(run.metrics_path)) == str([line for line in lines if line["step"] <= 1])
        assert curves[0].curve.gaps == sum(not math.isfinite(line["loss"]) for line in lines if "loss" in line)

    fuzz(examples, check, CHANGES)
