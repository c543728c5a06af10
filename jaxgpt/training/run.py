"""`train`: a run from its config to its footer; the command `jaxgpt train` is this function."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from jaxgpt.config import RunConfig, differing
from jaxgpt.runs.checkpoints import CheckpointStore
from jaxgpt.runs.directory import RunDirectory, is_run
from jaxgpt.runs.metrics import MetricsLog

from .console import Console
from .loop import Trainer
from .report import describe, footer, next_commands, show_sample
from .setup import (
    Material,
    Programs,
    changed_settings,
    compile_programs,
    gather_material,
    make_mesh,
    open_run,
    starting_state,
    training_batches,
)
from .step import TrainState
from .stop import watch_for_stop


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
        WorkError: a non-finite step, or no usable checkpoint.
        StoppedError: SIGINT or SIGTERM; everything is saved.
    """
    console = Console()
    out = None if out is None else Path(out)
    existing = RunDirectory.open(out) if out is not None and is_run(out) else None
    changes = changed_settings(existing.manifest.config, config) if existing else {}
    material = gather_material(config, existing.manifest if existing else None, _warner(console))
    mesh = make_mesh(material.config)
    run = open_run(material, out, command)
    with (
        run.lock(),
        CheckpointStore(run.checkpoints_path, keep=material.config.train.keep_checkpoints, writable=True) as store,
        MetricsLog(run) as log,
    ):
        state = starting_state(material, mesh, store, _warner(console))
        if existing:
            run.manifest.write(run.path)
            log.cut_back(int(state.step))
            _announce_resume(console, run, int(state.step), changes)
        else:
            console.settings(material.config, origins or dict.fromkeys(differing(config), "config"))
        end = material.config.train.stop_after or material.config.train.steps
        if int(state.step) >= end:
            console.say(f"nothing to do: the run is at step {int(state.step)} of {material.config.train.steps}")
            next_commands(console, run, state)
            return state
        describe(console, material, mesh)
        programs = compile_programs(material.config, mesh, state, material)
        console.say(f"compiled in {programs.compile_seconds:.1f} s")
        return _train_prepared(console, run, material, programs, store, log, state)


def _warner(console: Console):
    return lambda message: console.say(f"warning: {message}")


def _announce_resume(console: Console, run: RunDirectory, step: int, changes: Mapping[str, tuple]) -> None:
    console.say(f"continuing {run.path} after step {step}")
    for name, (before, after) in changes.items():
        console.say(f"  {name} was {before}, is now {after}")


def _train_prepared(
    console: Console,
    run: RunDirectory,
    material: Material,
    programs: Programs,
    store: CheckpointStore,
    log: MetricsLog,
    state: TrainState,
) -> TrainState:
    config, start = material.config, int(state.step)
    trainer = Trainer(run, material, programs, training_batches(material), store, log, console, state)
    console.start(config, start, trainer.end, fresh=start == 0 and config.train.init_from is None)
    try:
        with watch_for_stop() as request:
            trainer.run(request)
    finally:
        console.close()
    store.wait()
    if trainer.end == config.train.steps:
        show_sample(console, material, trainer.state)
    footer(console, trainer, programs.compile_seconds)
    next_commands(console, run, trainer.state)
    return trainer.state
