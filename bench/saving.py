"""What saving costs: train steps with a checkpoint now and then against the same steps without.

Both run as the trainer runs them: metrics are read one step late, and all of them before a save. A stretch begins
with its save, which is hashed and written while its steps run, and ends when all is on disk. The two take turns in
one process, on states of their own, which must be equal bit for bit in the end.

python bench/saving.py --preset char-cpu --record bench/results/saving-char-cpu.json
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from step import percentiles, prepare

from jaxgpt.benchmark.machine import environment
from jaxgpt.config import load_preset
from jaxgpt.runs.checkpoints import CheckpointStore
from jaxgpt.sharding.cpu import cores
from jaxgpt.sharding.mesh import largest_divisor
from jaxgpt.training.setup import saved_items


def stretch(step, state, batch, steps, store):
    """Run `steps` steps, after a save where there is a store; return the state, ms per step, and ms until saved."""
    start, held = time.perf_counter(), 0.0
    if store is not None:
        store.save(int(state.step), saved_items(state))
        held = 1e3 * (time.perf_counter() - start)
    pending = None
    for _ in range(steps):
        state, metrics = step(state, batch)
        if pending is not None:
            jax.device_get(pending)
        pending = metrics
    jax.device_get(pending)
    if store is not None:
        store.wait()
    jax.block_until_ready(state)
    return state, 1e3 * (time.perf_counter() - start) / steps, held


def same(a, b):
    """Return whether two states agree in every bit."""
    leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in leaves)


def main() -> None:
    """Time and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="char-cpu")
    parser.add_argument("--vocab-size", type=int, default=65)
    parser.add_argument("--rounds", type=int, default=13)
    parser.add_argument("--steps", type=int, default=100, help="steps of one stretch, and from one save to the next")
    parser.add_argument("--record", type=Path, required=True)
    options = parser.parse_args()

    train = load_preset(options.preset).train
    jax.config.update("jax_num_cpu_devices", largest_divisor(train.batch_size // train.accumulate, cores()))
    step, state, batch = prepare(options.preset, 0, vocab_size=options.vocab_size)
    states = {"without": jax.tree.map(jnp.copy, state), "saving": state}
    milliseconds, holding = {name: [] for name in states}, []
    with (
        tempfile.TemporaryDirectory() as folder,
        CheckpointStore(Path(folder) / "checkpoints", keep=train.keep_checkpoints) as store,
    ):
        for round_number in range(options.rounds + 1):
            for name in states:
                writing = store if name == "saving" else None
                states[name], each, held = stretch(step, states[name], batch, options.steps, writing)
                if round_number:
                    milliseconds[name].append(each)
                    holding += [held] if writing else []
    if not same(states["without"], states["saving"]):
        raise SystemExit("the states differ: saving changed the training")

    ratios = np.array(milliseconds["saving"]) / np.array(milliseconds["without"])

    record = {
        "command": f"python bench/saving.py --preset {options.preset} --vocab-size {options.vocab_size} "
        f"--rounds {options.rounds} --steps {options.steps}",
        "milliseconds_per_step": percentiles(milliseconds),
        "milliseconds_the_loop_is_held_by_a_save": percentiles({"save": holding})["save"],
        "cost_of_saving": {
            "of the medians": float(np.median(milliseconds["saving"]) / np.median(milliseconds["without"]) - 1),
            "median of the rounds": float(np.median(ratios) - 1),
            "standard_error": float(1.2533 * ratios.std(ddof=1) / np.sqrt(len(ratios))),
        },
        "states_equal_bit_for_bit": True,
        "environment": environment(),
    }
    options.record.parent.mkdir(parents=True, exist_ok=True)
    options.record.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps({name: record[name] for name in record if name.startswith(("milli", "cost"))}))


if __name__ == "__main__":
    main()
