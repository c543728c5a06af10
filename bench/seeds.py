"""Train one preset with several seeds and record the exact validation losses, their spread, the time and the machine.

python bench/seeds.py --preset char-cpu --data input.txt --seeds 1 2 3 --record bench/results/char-cpu.json
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from jaxgpt.benchmark.machine import environment
from jaxgpt.runs.metrics import read_metrics


def train_once(preset: str, data: str, seed: int, out: Path) -> dict:
    """Run `jaxgpt train` in a process of its own; return what it reached and how long it took."""
    command = ["jaxgpt", "train", "--preset", preset, "--data.path", data, "--train.seed", str(seed)]
    program = [sys.executable, "-c", "import sys; from jaxgpt.cli import main; sys.exit(main())", *command[1:]]
    start = time.perf_counter()
    finished = subprocess.run([*program, "--out", out], check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    evaluations = [line for line in read_metrics(out / "metrics.jsonl") if "validation_loss" in line]
    speed = next(line for line in finished.stdout.splitlines() if "tokens/s over" in line)
    return {"seed": seed, "seconds": round(seconds, 1), "footer": speed} | evaluations[-1]


def main() -> None:
    """Run every seed, one after the other, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--record", type=Path, required=True)
    options = parser.parse_args()
    runs = []
    for seed in options.seeds:
        with tempfile.TemporaryDirectory() as folder:
            runs.append(train_once(options.preset, options.data, seed, Path(folder) / "run"))
        print(
            f"seed {seed}: validation loss {runs[-1]['validation_loss']:.4f} in {runs[-1]['seconds']:.0f} s",
            flush=True,
        )
    losses = [run["validation_loss"] for run in runs]
    spread = statistics.stdev(losses) if len(losses) > 1 else None
    record = {
        "command": f"jaxgpt train --preset {options.preset} --data.path {Path(options.data).name} --train.seed SEED",
        "validation_loss_mean": statistics.mean(losses),
        "validation_loss_standard_deviation": spread,
        "seconds_median": statistics.median(run["seconds"] for run in runs),
        "environment": environment(),
        "runs": runs,
    }
    options.record.parent.mkdir(parents=True, exist_ok=True)
    options.record.write_text(json.dumps(record, indent=2) + "\n")
    print(f"mean {record['validation_loss_mean']:.4f}, standard deviation {spread}, written to {options.record}")


if __name__ == "__main__":
    main()
