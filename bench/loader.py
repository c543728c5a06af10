"""What loading costs: train steps on batches from the loader against steps on one batch that is already there.

Both run as the trainer runs them: a step is started, the next batch is fetched and placed while it runs, and its
metrics are read one step late. They take turns, a stretch of steps each, in one process.

python bench/loader.py --preset char-cpu --vocab-size 65 --record bench/results/loader-char-cpu.json
"""

import argparse
import json
import time
from pathlib import Path

import jax
import numpy as np
from step import percentiles, prepare

from jaxgpt.benchmark.machine import environment
from jaxgpt.config import load_preset
from jaxgpt.data.batches import TrainingBatches
from jaxgpt.data.examples import Windows
from jaxgpt.sharding.cpu import cores
from jaxgpt.sharding.mesh import largest_divisor, place
from jaxgpt.training.step import split_micro_batches


def stretch(step, state, fetch, steps):
    """Run `steps` steps as the trainer does; return the state and milliseconds per step."""
    batch, pending = fetch(), None
    start = time.perf_counter()
    for _ in range(steps):
        state, metrics = step(state, batch)
        batch = fetch()
        if pending is not None:
            jax.device_get(pending)
        pending = metrics
    jax.block_until_ready(state)
    return state, 1e3 * (time.perf_counter() - start) / steps


def main() -> None:
    """Time and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="char-cpu")
    parser.add_argument("--vocab-size", type=int, default=65)
    parser.add_argument("--tokens", type=int, default=1_000_000, help="length of the text")
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--steps", type=int, default=6, help="steps of one stretch")
    parser.add_argument("--record", type=Path, required=True)
    options = parser.parse_args()

    run = load_preset(options.preset)
    rows = run.train.batch_size
    jax.config.update("jax_num_cpu_devices", largest_divisor(rows // run.train.accumulate, cores()))
    step, state, held = prepare(options.preset, 0, vocab_size=options.vocab_size)
    ids_N = np.random.default_rng(0).integers(0, options.vocab_size, options.tokens, np.int32)
    batches = TrainingBatches(Windows(ids_N, context_length=run.model.context_length), batch_size=rows, seed=0)

    def placed(batch):
        return place(split_micro_batches(batch, run.train.accumulate), held["token_ids_BT"].sharding)

    milliseconds = {"held": [], "loaded": []}
    with batches.stream(0) as stream:
        ways = {"held": lambda: held, "loaded": lambda: placed(next(stream))}
        for round_number in range(options.rounds + 1):
            for name, fetch in ways.items():
                state, each = stretch(step, state, fetch, options.steps)
                if round_number:
                    milliseconds[name].append(each)

    ratios = np.array(milliseconds["loaded"]) / np.array(milliseconds["held"])
    record = {
        "command": f"python bench/loader.py --preset {options.preset} --vocab-size {options.vocab_size} "
        f"--rounds {options.rounds} --steps {options.steps}",
        "milliseconds_per_step": percentiles(milliseconds),
        "cost_of_loading": {
            "of the medians": float(np.median(milliseconds["loaded"]) / np.median(milliseconds["held"]) - 1),
            "median of the rounds": float(np.median(ratios) - 1),
            "standard_error": float(1.2533 * ratios.std(ddof=1) / np.sqrt(len(ratios))),
        },
        "environment": environment(),
    }
    options.record.parent.mkdir(parents=True, exist_ok=True)
    options.record.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record["milliseconds_per_step"]), json.dumps(record["cost_of_loading"]))


if __name__ == "__main__":
    main()
