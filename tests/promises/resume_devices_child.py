"""A run continued on 2, 4 and again 1 CPU devices, and on 1 all along; prints how far apart they end.

Run by test_resume.py.
"""

import json
import sys
import tempfile
from pathlib import Path

import jax

jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_default_matmul_precision", "highest")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np  # noqa: E402
from small_training import TEXT, TINY, largest, largest_difference  # noqa: E402

from jaxgpt.config import RunConfig, apply_settings  # noqa: E402
from jaxgpt.runs.directory import RunDirectory  # noqa: E402
from jaxgpt.runs.metrics import read_metrics  # noqa: E402
from jaxgpt.training.run import train  # noqa: E402

# The gradient of the keys' biases is zero in exact arithmetic, and AdamW magnifies what rounding makes of it.
SETTINGS = TINY | {
    "model.attention_bias": False,
    "model.embedding_dropout": 0.2,
    "model.residual_dropout": 0.1,
    "optimizer.epsilon": 1e-3,
    "optimizer.learning_rate": 1e-2,
    "train.steps": 4,
}
SEGMENTS = ((1, 1), (2, 2), (4, 3), (1, None))  # devices, and the step to stop after


def losses(run):
    return np.array([line["loss"] for line in read_metrics(run / "metrics.jsonl") if "loss" in line])


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    (folder / "text.txt").write_text(TEXT)

    def run(out, devices, stop):
        settings = SETTINGS | {
            "data.path": str(folder / "text.txt"),
            "mesh.data": devices,
            "train.stop_after": stop,
        }
        state = train(apply_settings(RunConfig(), settings, "test"), out=folder / out)
        return jax.device_get(state.params), RunDirectory.open(folder / out).manifest.devices["count"]

    first, _ = run("first", 1, 1)
    whole, _ = run("whole", 1, None)
    counts = []
    for devices, stop in SEGMENTS:
        moved, count = run("moved", devices, stop)
        counts.append(count)
    difference = np.abs(losses(folder / "moved") - losses(folder / "whole")) / losses(folder / "whole")
    report = {
        "devices": counts,
        "parameters": largest_difference(moved, whole) / largest(whole),
        "losses": float(difference.max()),
        "learned": largest_difference(whole, first),
    }
print(json.dumps(report))
