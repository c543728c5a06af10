"""Temporary memory of attention's forward and backward pass by length, from the compiled programs, with a linear fit.

python bench/attention_memory.py --record bench/results/attention-memory.json
"""

import argparse
import json
import shlex
import sys
from pathlib import Path

import jax
import numpy as np

import jaxgpt
from jaxgpt.benchmark.machine import environment

LENGTHS = (1024, 2048, 4096, 8192, 16384)


def temporary_bytes(kernel: str, T: int, H: int, D: int) -> int:
    """Return what the compiled program of B 1, float32, causal needs beside its arguments and results."""
    array = jax.ShapeDtypeStruct((1, T, H, D), "float32")

    def heads_and_gradients(q, k, v, d_out):
        heads, pull = jax.vjp(lambda *qkv: jaxgpt.attention(*qkv, implementation=kernel), q, k, v)
        return heads, pull(d_out)

    compiled = jax.jit(heads_and_gradients).lower(array, array, array, array).compile()
    return compiled.memory_analysis().temp_size_in_bytes


def main() -> None:
    """Compile at each length, fit a line through the bytes, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--head-size", type=int, default=64)
    parser.add_argument("--record", type=Path, required=True)
    options = parser.parse_args()
    size = (options.heads, options.head_size)
    bytes_by_kernel = {
        kernel: {T: temporary_bytes(kernel, T, *size) for T in LENGTHS} for kernel in ("blocked", "dense")
    }
    measured = np.array([bytes_by_kernel["blocked"][T] for T in LENGTHS], float)
    slope, start = np.polyfit(LENGTHS, measured, 1)
    worst = np.abs(slope * np.array(LENGTHS) + start - measured).max() / measured.max()
    record = {
        "command": shlex.join(["python", *sys.argv]),
        "shape": f"B1 H{options.heads} D{options.head_size}, float32, causal, forward and backward, one device",
        "temporary_bytes": bytes_by_kernel,
        "blocked_fit": {"bytes_per_token": slope, "start": start, "largest_deviation_over_largest": worst},
        "environment": environment(),
    }
    options.record.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps({key: record[key] for key in ("temporary_bytes", "blocked_fit")}, indent=2))


if __name__ == "__main__":
    main()
