"""What a run prints before its first step and after its last."""

from __future__ import annotations

import shlex

import jax

from jaxgpt.runs.directory import RunDirectory
from jaxgpt.runs.memory import peak_memory

from .console import Console
from .data_lines import data_lines
from .loop import Trainer, continue_command
from .material import Material
from .samples import first_try
from .setup import OpenRun
from .step import TrainState
from .utilization import Utilization


def describe(console: Console, material: Material, mesh: jax.sharding.Mesh) -> None:
    """Print the model, the text and the devices."""
    config = material.config
    micro_batches = config.train.accumulate
    rows = config.train.batch_size // micro_batches // mesh.size
    console.model(config)
    for line in data_lines(material):
        console.say(line)
    console.say(
        f"devices: {mesh.size} x {mesh.devices.flat[0].platform}, {rows} sequences on each; "
        f"micro-batches per step: {micro_batches}"
    )
    console.say(f"MFU: {Utilization(config, mesh).words}")


def footer(console: Console, trainer: Trainer, compile_seconds: float) -> None:
    """Print where the time and the memory went."""
    clock, reporter = trainer.clock, trainer.reporter
    training = clock.seconds("training")
    console.say(
        f"{reporter.tokens_per_second:,.0f} tokens/s over {reporter.steps_done} steps in {training:.1f} s "
        f"(waiting for data {clock.seconds('waiting for data') / training:.2%}), compiling {compile_seconds:.1f} s, "
        f"evaluating {clock.seconds('evaluating'):.1f} s, saving {clock.seconds('saving'):.1f} s, "
        f"sampling {clock.seconds('sampling'):.1f} s, "
        f"peak memory {peak_memory()}"
    )
    skipped = int(trainer.state.skipped)
    if skipped:
        console.say(f"steps that were not finite and were skipped: {skipped:,} of {int(trainer.state.step):,}")


def checkpoints(console: Console, run: OpenRun) -> None:
    """Print the last checkpoint and the best one, with their validation losses."""
    last, best, losses = run.store.steps()[-1], run.store.best(), run.store.losses()
    line = f"last checkpoint: step {last}" + (f", validation loss {losses[last]:.4f}" if last in losses else "")
    if best is not None:
        line += f"; best: step {best}, validation loss {losses[best]:.4f} (--checkpoint best)"
    console.say(line)


def next_commands(console: Console, run: RunDirectory, material: Material, state: TrainState) -> None:
    """Print where the run lies and the commands that go on from here."""
    step, steps = int(state.step), run.manifest.config.train.steps
    sample = shlex.join(["jaxgpt", "generate", str(run.path), *first_try(material)])
    console.say(f"the run lies in {run.path}; sample from it with:\n  {sample}")
    if step < steps:
        console.say(f"paused at step {step} of {steps}; continue with:\n  {continue_command(run)}")
    else:
        longer = continue_command(run, "--train.steps", str(2 * steps))
        console.say(f"done; continue for longer with:\n  {longer}")
