"""Time the compiled train step of a preset on one CPU device and on one per core, in turn, in one process.

python bench/step.py --preset char-cpu --vocab-size 65 --record bench/results/step-char-cpu.json
"""

import argparse
import json
import time
from pathlib import Path

import jax
import numpy as np

from jaxgpt.benchmark.machine import environment
from jaxgpt.config import load_preset
from jaxgpt.model.parameters import init
from jaxgpt.sharding.cpu import cores
from jaxgpt.sharding.mesh import data_mesh, largest_divisor, place, replicated, split_rows
from jaxgpt.training.optimizer import learning_rate_schedule, make_optimizer
from jaxgpt.training.step import initial_state, make_train_step, split_micro_batches


def prepare(preset: str, devices: int, *, attention: str = "auto", rows: int = 0, **model_changes):
    """Return (compiled step, its state, its batch) on a mesh of `devices`; `rows` 0 means the preset's batch size."""
    run = load_preset(preset)
    rows = rows or run.train.batch_size
    model, execution = run.model.replace(**model_changes), run.execution.replace(attention=attention)
    vocab_size = model.vocab_size
    optimizer = make_optimizer(run.optimizer, model, run.train.steps)
    mesh = data_mesh(rows // run.train.accumulate, devices)
    ids_BT = np.random.default_rng(0).integers(0, vocab_size, (rows, model.context_length + 1), np.int32)
    batch = {
        "token_ids_BT": ids_BT[:, :-1],
        "target_ids_BT": ids_BT[:, 1:],
        "weights_BT": np.ones((rows, model.context_length), np.float32),
    }
    batch = place(split_micro_batches(batch, run.train.accumulate), split_rows(mesh, axis=1))
    state = place(initial_state(init(model, key=jax.random.key(0)), optimizer), replicated(mesh))
    rate = learning_rate_schedule(run.optimizer, run.train.steps)
    step = make_train_step(model, execution, optimizer, learning_rate=rate, key=jax.random.key(0))
    with jax.set_mesh(mesh):
        compiled = jax.jit(step, donate_argnums=0, out_shardings=replicated(mesh)).lower(state, batch).compile()
    return compiled, state, batch


def time_in_turn(programs: dict, rounds: int, steps: int) -> tuple[dict, dict]:
    """Run every program `steps` times a round; return milliseconds and last losses by name (round 0 warms up)."""
    milliseconds, losses = {name: [] for name in programs}, {}
    for round_number in range(rounds + 1):
        for name, (step, state, batch) in programs.items():
            for _ in range(steps):
                start = time.perf_counter()
                state, metrics = jax.block_until_ready(step(state, batch))
                if round_number:
                    milliseconds[name].append(1e3 * (time.perf_counter() - start))
            programs[name], losses[name] = (step, state, batch), float(metrics["loss"])
    return milliseconds, losses


def percentiles(milliseconds: dict) -> dict:
    """Return the median of each program's times, and the 10th and 90th percentile."""
    return {
        name: dict(zip(("p10", "median", "p90"), np.percentile(times, (10, 50, 90)).round(2).tolist(), strict=True))
        for name, times in milliseconds.items()
    }


def main() -> None:
    """Time, check that the losses agree, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="char-cpu")
    parser.add_argument("--vocab-size", type=int, default=65)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--record", type=Path, required=True)
    options = parser.parse_args()

    train = load_preset(options.preset).train
    most = largest_divisor(train.batch_size // train.accumulate, cores())
    jax.config.update("jax_num_cpu_devices", most)
    counts = {f"{count} device(s)": count for count in sorted({1, most})}
    programs = {name: prepare(options.preset, count, vocab_size=options.vocab_size) for name, count in counts.items()}
    milliseconds, losses = time_in_turn(programs, options.rounds, options.steps)
    if np.ptp(list(losses.values())) > 1e-3:
        raise SystemExit(f"the losses differ: {losses}; nothing was recorded")
    rows = percentiles(milliseconds)
    record = {
        "command": f"python bench/step.py --preset {options.preset} --vocab-size {options.vocab_size}",
        "milliseconds_per_step": rows,
        "ratio_of_medians": rows["1 device(s)"]["median"] / rows[f"{most} device(s)"]["median"],
        "losses": losses,
        "environment": environment(),
    }
    options.record.parent.mkdir(parents=True, exist_ok=True)
    options.record.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record["milliseconds_per_step"]), f"ratio {record['ratio_of_medians']:.2f}")


if __name__ == "__main__":
    main()
