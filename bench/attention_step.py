"""Time the model's whole train step with each kernel of attention, in turn, at several context lengths.

python bench/attention_step.py --lengths 128 256 512 1024 --record bench/results/attention-step.json
"""

import argparse
import json
import shlex
import sys
from pathlib import Path

import jax
import numpy as np
from step import percentiles, prepare, time_in_turn

from jaxgpt.benchmark.machine import environment
from jaxgpt.sharding.cpu import cores

TOKENS = 2048  # of a step, at every length


def compare(preset: str, length: int, kernels: list[str], rounds: int) -> dict:
    """Return milliseconds a step by kernel; all must give the same loss."""
    rows = max(TOKENS // length, cores())
    settings = {"rows": rows, "vocab_size": 65, "context_length": length}
    programs = {kernel: prepare(preset, cores(), attention=kernel, **settings) for kernel in kernels}
    milliseconds, losses = time_in_turn(programs, rounds, 3)
    if np.ptp(list(losses.values())) > 1e-3:
        raise SystemExit(f"at {length} the losses differ: {losses}; nothing was recorded")
    times = percentiles(milliseconds)
    ratios = {kernel: round(times["dense"]["median"] / times[kernel]["median"], 3) for kernel in kernels}
    print(f"T {length:5} B {rows:3}  {times}  dense / kernel {ratios}", flush=True)
    return {"rows": rows, "milliseconds_per_step": times, "dense_over_kernel": ratios}


def main() -> None:
    """Compare at each length and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="char-cpu")
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 256, 512, 1024])
    parser.add_argument("--kernels", nargs="+", default=["dense", "blocked"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", cores())
    lengths = {str(n): compare(options.preset, n, options.kernels, options.rounds) for n in options.lengths}
    record = {"command": shlex.join(["python", *sys.argv]), "lengths": lengths, "environment": environment()}
    if options.record:
        options.record.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
