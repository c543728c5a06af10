"""`train`: a run from its config to its footer; the command `jaxgpt train` is this function."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import jax

from jaxgpt.config import RunConfig, differing
from jaxgpt.data.batches import count_evaluation_windows
from jaxgpt.generation.generate import generate
from jaxgpt.runs.checkpoints import CheckpointStore
from jaxgpt.runs.directory import RunDirectory, is_run
from jaxgpt.runs.metrics import MetricsLog

from .console import Console, peak_memory
from .loop import Trainer, continue_command
from .setup import (
    Material,
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
            log.cut_back(int(state.step))
            _announce_resume(console, run, int(state.step), changes)
        else:
            console.settings(material.config, origins or dict.fromkeys(differing(config), "config"))
        return _train_prepared(console, run, material, store, log, state, mesh)


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
    store: CheckpointStore,
    log: MetricsLog,
    state: TrainState,
    mesh: jax.sharding.Mesh,
) -> TrainState:
    config, start = material.config, int(state.step)
    _describe(console, material, mesh)
    programs = compile_programs(config, mesh, state, material)
    console.say(f"compiled in {programs.compile_seconds:.1f} s")
    trainer = Trainer(run, material, programs, training_batches(material), store, log, console, state)
    fresh = start == 0 and config.train.init_from is None
    console.start(config, start, trainer.end, fresh=fresh)
    try:
        with watch_for_stop() as request:
            trainer.run(request)
    finally:
        console.close()
    store.wait()
    if trainer.end == config.train.steps:
        _show_sample(console, material, trainer.state)
    _footer(console, run, trainer, programs.compile_seconds)
    return trainer.state


def _describe(console: Console, material: Material, mesh: jax.sharding.Mesh) -> None:
    config, corpus = material.config, material.corpus
    console.model(config)
    length = config.model.context_length
    windows, left_over = count_evaluation_windows(len(material.validation_ids_N), length)
    console.say(f"data: {corpus.source}, {len(corpus.text):,} characters, {config.model.vocab_size} distinct")
    console.say(
        f"  training on the first {len(material.train_ids_N):,}, validating on the last "
        f"{len(material.validation_ids_N):,}: {windows:,} whole windows of {length}, {left_over} characters left over"
    )
    platform = mesh.devices.flat[0].platform
    micro_batches = config.train.accumulate
    rows = config.train.batch_size // micro_batches // mesh.size
    console.say(f"devices: {mesh.size} x {platform}, {rows} sequences on each; micro-batches per step: {micro_batches}")


def _show_sample(console: Console, material: Material, state: TrainState) -> None:
    config, tokenizer = material.config, material.tokenizer
    if not config.train.sample_tokens:
        return
    prompt = material.validation_ids_N[:1].tolist()  # any one token would do; this one the tokenizer knows
    result = generate(
        config.model,
        jax.device_get(state.params),
        [prompt],
        max_new_tokens=config.train.sample_tokens,
        temperature=0.8,
        key=jax.random.key(config.train.seed),
        context_policy="crop",
        execution=config.execution,
    )
    console.say(f"sample (temperature 0.8, {config.train.sample_tokens} tokens):")
    console.say(tokenizer.decode(result.ids[0]))


def _footer(console: Console, run: RunDirectory, trainer: Trainer, compile_seconds: float) -> None:
    clock, config = trainer.clock, trainer.config
    if trainer.steps_done:
        training = clock.seconds("training")
        console.say(
            f"{trainer.tokens_per_second:,.0f} tokens/s over {trainer.steps_done} steps in {training:.1f} s "
            f"(waiting for data {clock.seconds('loading') / training:.1%}), compiling {compile_seconds:.1f} s, "
            f"evaluating {clock.seconds('evaluating'):.1f} s, saving {clock.seconds('saving'):.1f} s, "
            f"peak memory {peak_memory()}"
        )
    else:
        console.say(f"nothing to do: the run is at step {int(trainer.state.step)} of {config.train.steps}")
    console.say(f"the run lies in {run.path}; sample from it with: jaxgpt generate {run.path} --prompt ...")
    if trainer.end < config.train.steps:
        console.say(f"paused at step {trainer.end} of {config.train.steps}; continue with:")
        console.say(f"  {continue_command(run)}")
    else:
        console.say(
            f"done; continue for longer with:\n  {continue_command(run, '--train.steps', str(2 * trainer.end))}"
        )
