"""`train`: a run from its config to its footer; the command `jaxgpt train` is this function."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from jax.sharding import Mesh

from jaxgpt.config import RunConfig, differing, doubts, warn
from jaxgpt.runs.directory import RunDirectory
from jaxgpt.runs.metrics import sampled_steps
from jaxgpt.runs.weights_and_biases import check_wandb

from .console import Console
from .data_lines import realised_shares
from .loop import Trainer, continue_command
from .material import Material, gather_material
from .programs import Programs, compile_programs, make_mesh
from .report import checkpoints, describe, footer, next_commands
from .reporter import Reporter
from .setup import OpenRun, changed_settings, changed_surroundings, hold, open_existing, open_run, starting_state
from .step import TrainState
from .stop import told_how_to_continue, watch_for_stop


def train(
    config: RunConfig,
    *,
    out: str | Path | None = None,
    origins: Mapping[str, str] | None = None,
    command: str | None = None,
) -> TrainState:
    """Train a GPT and leave a run directory behind; on an existing run directory, continue it.

    Args:
        config: Everything that defines the run.
        out: Where the run lies; None makes a new directory under `runs/`. An existing run is continued from its
            newest usable checkpoint, as if it had never stopped.
        origins: {setting: where it came from}, for the list that is printed first; None says "config".
        command: The command line, kept in the manifest.

    Returns:
        The final state.

    Raises:
        RequestError: data, vocabulary or settings that do not fit; nothing was written.
        WorkError: a non-finite step, a file of ids that is written to meanwhile, or no usable checkpoint.
        StoppedError: SIGINT, SIGTERM or SIGHUP; all is saved, unless SIGINT came before the first step or twice.
    """
    console = Console()
    out = None if out is None else Path(out)
    for doubt in doubts(config):
        warn(doubt)
    check_wandb(config.train.wandb_project)
    existing = open_existing(out)
    changes = changed_settings(existing.manifest.config, config) if existing else {}
    material = gather_material(config, existing, warn, console.say)
    mesh = make_mesh(material.config)
    directory = open_run(material, mesh, existing, out, command)
    with hold(directory) as run, told_how_to_continue(continue_command(directory)):
        state = starting_state(material, mesh, run.store, warn)
        if int(state.step) >= material.config.train.end:
            _say_that_nothing_is_left(console, run, material, mesh, state)
            return state
        if existing:
            _resume(console, run, existing, int(state.step), changes)
        else:
            console.settings(material.config, origins or dict.fromkeys(differing(config), "config"))
        describe(console, material, mesh)
        programs = compile_programs(material, mesh, state)
        console.say(f"compiled in {programs.compile_seconds:.1f} s")
        return _train_prepared(console, run, material, programs, state)


def _say_that_nothing_is_left(
    console: Console, run: OpenRun, material: Material, mesh: Mesh, state: TrainState
) -> None:
    """Say what is there, and draw the last sample where the process that trained did not come to it."""
    step, steps = int(state.step), material.config.train.steps
    console.say(f"nothing to do: the run is at step {step} of {steps}")
    if step == steps and step not in sampled_steps(run.directory.samples_path):
        run.log.cut_back(step)  # mends the line that was torn
        Reporter(run, material, mesh, console).sample(step, state.params)
    checkpoints(console, run)
    next_commands(console, run.directory, material, state)


def _resume(console: Console, run: OpenRun, existing: RunDirectory, step: int, changes: Mapping[str, tuple]) -> None:
    """Say what goes on, warn of what could change its numbers, and bring the files in line with the checkpoint."""
    console.say(f"continuing {run.directory.path} after step {step}")
    if step == 0:
        console.say("  it ended before its first checkpoint, so it starts again")
    for name, (before, after) in changes.items():
        console.say(f"  {name} was {before}, is now {after}")
    surroundings = changed_surroundings(existing.manifest, run.directory.manifest)
    if surroundings:
        warn(
            f"{'; '.join(surroundings)}: the run goes on, but its numbers are bit for bit those of a run that never "
            "stopped only on the same devices with the same versions"
        )
    run.log.cut_back(step)
    run.directory.manifest.write(run.directory.path)


def _train_prepared(
    console: Console, run: OpenRun, material: Material, programs: Programs, state: TrainState
) -> TrainState:
    config, start = material.config, int(state.step)
    trainer = Trainer(run, material, programs, console, state)
    console.start(config, start, fresh=start == 0 and config.train.init_from is None)
    try:
        with watch_for_stop() as request:
            trainer.run(request)
    finally:
        console.close()
    if config.train.end == config.train.steps:
        trainer.reporter.sample(config.train.steps, trainer.state.params)
    footer(console, trainer, programs.compile_seconds)
    for line in realised_shares(material, int(trainer.state.step)):
        console.say(line)
    checkpoints(console, run)
    next_commands(console, run.directory, material, trainer.state)
    return trainer.state
