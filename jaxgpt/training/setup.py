"""From a request to a run that is open: what it continues, where it is written, and the state it goes on from."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jax.sharding import Mesh

from jaxgpt.config import RequestError, RunConfig, flatten
from jaxgpt.model.parameters import init
from jaxgpt.ops.keys import random_key
from jaxgpt.runs.checkpoints import CheckpointStore
from jaxgpt.runs.directory import RunDirectory, fresh_run_path, is_run
from jaxgpt.runs.manifest import Manifest
from jaxgpt.runs.metrics import MetricsLog, last_logged_step
from jaxgpt.runs.step_folders import saved_steps
from jaxgpt.runs.versions import library_versions
from jaxgpt.runs.weights_and_biases import WandbLog
from jaxgpt.sharding.mesh import place, replicated, topology

from .material import Material, Warn, with_absolute_paths
from .programs import run_optimizer
from .step import NO_BAD_STEP, TrainState, initial_state

# Settings that a checkpoint's numbers depend on in a way that no later step can make good; what
# `_BY_CONTENT` names may move, since `gather_material` compares what they hold.
_FIXED = ("model.", "data.", "train.seed", "train.batch_size", "train.init_from")
_BY_CONTENT = ("data.path", "data.validation_path", "data.tokenizer")


@dataclasses.dataclass(frozen=True)
class OpenRun:
    """A run directory that this process holds, its checkpoints and its metrics open for writing.

    Attributes:
        remote: Where the metrics go beside, or None.
    """

    directory: RunDirectory
    store: CheckpointStore
    log: MetricsLog
    remote: WandbLog | None = None


def open_existing(path: Path | None) -> RunDirectory | None:
    """Return the training run at `path`, or None where there is no run yet.

    Raises:
        RequestError: a saved model, which has no text or optimizer to go on with; or a run without its checkpoints.
    """
    if path is None or not is_run(path):
        return None
    run = RunDirectory.open(path)
    if not run.manifest.data:
        raise RequestError(
            f"{path} is a saved model, not a training run that could be continued; to train from its parameters use "
            f"--train.init_from {path} and another --out"
        )
    _refuse_lost_checkpoints(run)
    return run


def _refuse_lost_checkpoints(run: RunDirectory) -> None:
    """Refuse a run that has lost its checkpoints: to start again from step 0 would erase its log as well."""
    if saved_steps(run.checkpoints_path):
        return
    logged = last_logged_step(run.metrics_path)
    is_folder_gone = not run.checkpoints_path.is_dir()  # it is made before anything is logged
    last_without = 3 * run.manifest.config.train.save_every  # the third save ends a run whose first two failed
    if logged > last_without or (logged and is_folder_gone):
        raise RequestError(
            f"{run.path} was trained to step {logged} at least, but has no checkpoint to continue from, and starting "
            f"again would erase what it logged: put {run.checkpoints_path} back, or name another --out"
        )


def changed_settings(stored: RunConfig, wanted: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Return {name: (stored, wanted)} of the settings that differ, without the pause, which ends by itself.

    Raises:
        RequestError: one of them cannot change without making the run another run.
    """
    before, after = (flatten(with_absolute_paths(config)) for config in (stored, wanted))
    after["model.vocab_size"] = after["model.vocab_size"] or before["model.vocab_size"]
    changes = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    changes.pop("train.stop_after", None)
    fixed = [name for name in changes if name.startswith(_FIXED) and name not in _BY_CONTENT]
    if fixed:
        listed = "; ".join(f"{name} is {changes[name][0]}, not {changes[name][1]}" for name in fixed)
        raise RequestError(
            f"this run cannot continue with other settings: {listed}. Leave them out, or start a new run"
        )
    return changes


def changed_surroundings(before: Manifest, now: Manifest) -> list[str]:
    """Return in words which versions and devices are not those that the run was trained with before."""
    old, new = (
        manifest.versions | {f"device {name}": value for name, value in manifest.devices.items()}
        for manifest in (before, now)
    )
    return [f"{name} was {old[name]}, is now {new[name]}" for name in new if old.get(name) != new[name]]


def open_run(
    material: Material, mesh: Mesh, existing: RunDirectory | None, out: Path | None, command: str | None
) -> RunDirectory:
    """Return the run directory: the existing one, a new one at `out`, or a fresh one under `runs/`.

    The manifest of an existing run takes over what changed: settings, versions, devices. It is written once the run
    is locked.
    """
    if existing is not None:
        manifest = dataclasses.replace(
            existing.manifest, config=material.config, versions=library_versions(), devices=topology(mesh)
        )
        return dataclasses.replace(existing, manifest=manifest)
    manifest = Manifest(
        config=material.config,
        data=material.sources.identity,
        tokenizer=material.tokenizer.to_json(),
        devices=topology(mesh),
        command=command,
    )
    return RunDirectory.create(out or fresh_run_path(Path("runs"), "run"), manifest)


@contextlib.contextmanager
def hold(directory: RunDirectory) -> Iterator[OpenRun]:
    """Hold a run directory for this process until the block ends, and open what is written to it."""
    keep, project = directory.manifest.config.train.keep_checkpoints, directory.manifest.config.train.wandb_project
    with (
        directory.lock(),
        MetricsLog(directory) as log,
        contextlib.nullcontext() if project is None else WandbLog(directory) as remote,
        # A power cut must not leave a checkpoint whose metrics are missing.
        CheckpointStore(directory.checkpoints_path, keep=keep, before_commit=log.sync) as store,
    ):
        yield OpenRun(directory, store, log, remote)


def starting_state(material: Material, mesh: Mesh, store: CheckpointStore, warn: Warn) -> TrainState:
    """Return the newest usable checkpoint's state, or the state before the first step."""
    config, optimizer = material.config, run_optimizer(material.config)
    params = material.start or init(config.model, key=random_key(config.train.seed))
    state = place(initial_state(params, optimizer), replicated(mesh))
    store.remove_unfinished(warn)
    if not store.steps():
        return state
    restored = store.restore(saved_items(state), warn=warn)
    scalars = place((np.int32(restored.step), np.int32(NO_BAD_STEP)), replicated(mesh))
    params, opt_state, progress = (restored.items[name] for name in ("params", "optimizer", "progress"))
    return TrainState(scalars[0], params, opt_state, scalars[1], progress["skipped"])


def saved_items(state: TrainState) -> dict[str, Any]:
    """Return what a checkpoint holds of a state; its step is the checkpoint's own."""
    return {"params": state.params, "optimizer": state.opt_state, "progress": {"skipped": state.skipped}}
