"""`jaxgpt bench attention`: compiled against eager attention, on one device and on all."""

from __future__ import annotations

import argparse
import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from jaxgpt.config import RequestError, WorkError, some

from .bench_output import add_output_options, check_new_file, say, show
from .parser import Parser, number, seed

if TYPE_CHECKING:
    from jaxgpt.benchmark.results import Results
    from jaxgpt.benchmark.workload import Workload

_DESCRIPTION = """Compare compiled with eager attention: checked against float64, then timed in turn.

Each contestant's result is compared with float64 NumPy first; a wrong one is not timed, and the exit code is then 1.
The feed-forward network and the whole block stand beside it, and PyTorch where it is installed.
"""


def main(arguments: list[str]) -> int:
    """Run the sub-command.

    Raises:
        RequestError: an unknown option, contestant or shape, a plot or a record that could not be written.
        WorkError: results that were wrong, after the printing.
    """
    options = _parse(arguments)
    _check_outputs(options)
    from jaxgpt.sharding.cpu import arrange_cpu_devices, cores

    arrange_cpu_devices(cores())
    from jaxgpt.benchmark.contestants import chosen
    from jaxgpt.benchmark.run import run_benchmark

    results = run_benchmark(
        _workloads(options),
        chosen(options.contestants),
        passes=("forward",) if options.passes == "forward" else ("forward", "forward+backward"),
        devices=options.devices,
        seconds=options.seconds,
        say=say,
    )
    _write(results, options, shlex.join(["jaxgpt", "bench", "attention", *arguments]))
    _refuse_wrong(results)
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(prog="jaxgpt bench attention", description=_DESCRIPTION)
    parser.add_argument(
        "--shapes",
        metavar="SHAPE",
        nargs="+",
        default=["1x256x12x64"],
        help="BxTxHxD, or BxTxHxDxK for K key heads (default: 1x256x12x64)",
    )
    parser.add_argument(
        "--sweep", metavar="T0:T1", help="run every shape at T0, 2 T0, ... up to T1 instead (default: its own T)"
    )
    parser.add_argument(
        "--dtype", choices=("float32", "bfloat16"), default="float32", help="of all arrays (default: float32)"
    )
    parser.add_argument(
        "--mask", choices=("causal", "full"), default="causal", help="what a query sees (default: causal)"
    )
    parser.add_argument(
        "--contestants",
        metavar="NAME",
        nargs="+",
        help="eager, disable_jit, a kernel's name, jax.nn, flax.linen, torch.eager, torch.sdpa, ffn.eager, ffn, "
        "block.eager, block (default: all)",
    )
    parser.add_argument(
        "--pass",
        dest="passes",
        choices=("forward", "both"),
        default="both",
        help="forward alone, or forward, and forward with backward (default: both)",
    )
    parser.add_argument(
        "--devices",
        choices=("one", "all", "both"),
        default="both",
        help="compiled programs on one device, as a user gets it, with heads (or else rows) divided among all CPU "
        "devices, one per core, or both (default: both)",
    )
    parser.add_argument(
        "--seconds", type=number, default=0.3, help="time for each contestant in each pass (default: 0.3)"
    )
    parser.add_argument("--seed", type=seed, default=0, help="of the numbers that go in (default: 0)")
    add_output_options(parser)
    parser.add_argument(
        "--plot", metavar="FILE", type=Path, help="also draw time against T, a PNG; the plot extra (default: none)"
    )
    return parser.parse(arguments)


def _check_outputs(options: argparse.Namespace) -> None:
    """Refuse before the work what would fail after it."""
    if not 0 < options.seconds < math.inf:
        raise RequestError(f"--seconds: expected a finite number above 0, got {options.seconds}")
    for name in ("record", "plot"):
        check_new_file(name, getattr(options, name))
    if options.plot is not None:
        from jaxgpt.runs.pictures import check_picture

        check_picture("--plot", options.plot)


def _workloads(options: argparse.Namespace) -> list[Workload]:
    from dataclasses import replace

    from jaxgpt.benchmark.workload import parse_shape, parse_sweep

    common = {"dtype": options.dtype, "mask": options.mask, "seed": options.seed}
    shapes = [parse_shape(text, **common) for text in options.shapes]
    if options.sweep is None:
        return shapes
    swept = [replace(shape, T=T) for shape in shapes for T in parse_sweep(options.sweep)]
    return list(dict.fromkeys(swept))


def _write(results: Results, options: argparse.Namespace, command: str) -> None:
    from jaxgpt.benchmark.plot import draw_plot
    from jaxgpt.benchmark.report import lines
    from jaxgpt.benchmark.results import as_record

    show(as_record(results, command), lines(results), options)
    if options.plot is not None:
        draw_plot(results, options.plot)


def _refuse_wrong(results: Results) -> None:
    if results.wrong:
        rows = [f"{row.who} at {row.workload.name}, {row.passes}: {row.left_out}" for row in results.wrong]
        raise WorkError(f"{len(rows)} wrong results, not timed: {some(rows, joint='; ')}")
