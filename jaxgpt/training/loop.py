"""The training loop: steps, metrics one step late, evaluations, checkpoints, and the ways it can end."""

from __future__ import annotations

import dataclasses
import math
import shlex
import time
from collections.abc import Iterator

import jax

from jaxgpt.config import RunConfig, WorkError, some
from jaxgpt.ops.keys import random_key
from jaxgpt.runs.directory import RunDirectory

from .console import Console
from .diagnose import first_non_finite
from .evaluate import Estimate, evaluate
from .material import Material
from .programs import Programs, training_batches
from .reporter import Reporter
from .setup import OpenRun, saved_items
from .step import NO_BAD_STEP, Metrics, TrainState, dropout_key, split_micro_batches
from .stop import StoppedError, StopRequest

_READ = ("token_ids_BT", "source_ids_BS")  # the fields of a batch that the model reads tokens from


@dataclasses.dataclass
class Evaluation:
    """Losses at one step, in nats per token: the whole validation split, and two quick estimates."""

    step: int
    validation: Estimate
    validation_estimate: Estimate
    train_estimate: Estimate


class Trainer:
    """Runs a prepared run from its state's step to its end.

    The host asks for a step's metrics only after it has handed the next step to the devices, so they never wait.
    """

    def __init__(
        self, run: OpenRun, material: Material, programs: Programs, console: Console, state: TrainState
    ) -> None:
        self._run, self._material, self._programs, self._console, self.state = run, material, programs, console, state
        self._batches = training_batches(material)
        self._pending: tuple[int, Metrics] | None = None
        self._saved_step = int(state.step) if run.store.steps() else -1
        self._saved_at = time.monotonic()
        self._skipped = int(state.skipped)
        self.evaluation: Evaluation | None = None
        self.reporter = Reporter(run, material, programs.mesh, console)
        self.clock = self.reporter.clock

    @property
    def config(self) -> RunConfig:
        """The run's config, vocabulary size filled in."""
        return self._material.config

    def run(self, request: StopRequest) -> None:
        """Train to `train.end`; on return everything is on disk.

        Raises:
            StoppedError: a signal asked for it; the state is saved.
            WorkError: a step was not finite, or a file of ids was written to; the last good state is saved.
        """
        start = int(self.state.step)
        with self._batches.stream(start) as stream:
            with self.clock.measure("training"), self.clock.measure("waiting for data"):
                batch = self._programs.place_batch(next(stream))
            self.reporter.tokens_per_step = sum(batch[name].size for name in _READ if name in batch)
            for done in range(start + 1, self.config.train.end + 1):
                batch = self._train_one(batch, stream, done)
                self._between_steps(done)
                self._stop_if_asked(request, done)
        self._run.store.wait()
        self._stop_if_asked(request, done)  # while the last checkpoint was being written

    def _train_one(self, batch: dict[str, jax.Array], stream: Iterator, done: int) -> dict[str, jax.Array]:
        """Start a step on `batch`; while it runs, load the next batch and report the step before."""
        with self.clock.measure("training"):
            self.state, metrics = self._programs.train_step(self.state, batch)
            start = time.perf_counter()
            following = self._programs.place_batch(next(stream))
            if metrics["loss"].is_ready():  # the devices finished first, so they waited for at most this long
                self.clock.add("waiting for data", time.perf_counter() - start)
            self._settle()
            self._pending = (done, metrics)
        return following

    def _settle(self) -> None:
        """Fetch and report the metrics of the step before."""
        if self._pending is None:
            return
        (done, on_device), self._pending = self._pending, None
        metrics = {name: float(value) for name, value in jax.device_get(on_device).items()}
        bad_step = int(metrics.pop("bad_step"))
        if bad_step != NO_BAD_STEP:
            self._fail(bad_step)
        if metrics["skipped"] > self._skipped:
            self._skipped = int(metrics["skipped"])
            self._console.skipped(done, self._places(done - 1), self._skipped)
        self.reporter.step(done, metrics)

    def _between_steps(self, done: int) -> None:
        train = self.config.train
        evaluating = done % train.eval_every == 0 or done == train.steps
        saving = done % train.save_every == 0 or done == train.end or self._minutes_are_over()
        sampling = self.reporter.is_sample_due(done)
        if evaluating or saving or sampling:
            with self.clock.measure("training"):
                self._settle()
            self._stop_if_data_changed(done)
        if evaluating:
            self._evaluate(done)
        if sampling:
            self.reporter.sample(done, self.state.params)
        if saving or (evaluating and self._is_best()):
            self.save(done)

    def _minutes_are_over(self) -> bool:
        minutes = self.config.train.save_minutes
        return minutes is not None and time.monotonic() - self._saved_at >= 60 * minutes

    def _is_best(self) -> bool:
        """Return whether the last evaluation's loss is the lowest so far, so that its step is worth a checkpoint."""
        return self.evaluation.validation.loss < min(self._run.store.losses().values(), default=math.inf)

    def _evaluate(self, done: int) -> None:
        programs, params = self._programs, self.state.params
        splits = self._material.splits
        with self.clock.measure("evaluating"):
            self.evaluation = Evaluation(
                done,
                programs.evaluate_whole(params, splits.validation),
                evaluate(programs.evaluation_step, params, programs.random_batches(splits.validation)),
                evaluate(programs.evaluation_step, params, programs.random_batches(splits.train)),
            )
        self.reporter.evaluated(self.evaluation)

    def save(self, done: int) -> None:
        """Write a checkpoint of the present state, unless this step is saved already."""
        if done == self._saved_step:
            return
        evaluated = self.evaluation is not None and self.evaluation.step == done
        with self.clock.measure("saving"):
            loss = self.evaluation.validation.loss if evaluated else None
            self._run.store.save(done, saved_items(self.state), loss=loss)
        self._saved_step, self._saved_at = done, time.monotonic()

    def _stop_if_asked(self, request: StopRequest, done: int) -> None:
        if request.signal_number is None:
            return
        self._settle()
        self.save(done)
        self._run.store.wait()
        command = continue_command(self._run.directory)
        raise StoppedError(
            f"stopped by a signal after step {done}, saved; continue with: {command}", request.signal_number
        )

    def _stop_if_data_changed(self, done: int) -> None:
        """Save the state and stop where a file of ids, checked before the first step, has been written to since."""
        changed = self._material.sources.changed()
        if not changed:
            return
        self.save(done)
        self._run.store.wait()
        raise WorkError(
            f"{some(changed)} changed since it was checked, so the last steps may have read other ids; the state "
            f"after step {done} is saved in {self._run.directory.path}. Put back what it held and continue with: "
            f"{continue_command(self._run.directory)}"
        )

    def _fail(self, bad_step: int) -> None:
        """Save the last good state, run the failed step again with tracing, and say what went wrong."""
        self._stop_if_data_changed(bad_step)
        self.save(bad_step)
        self._run.store.wait()
        config, directory = self.config, self._run.directory
        micro_batches = split_micro_batches(self._batches.batch_at(bad_step), config.train.accumulate)
        key = dropout_key(config.model, random_key(config.train.seed), bad_step)
        params = jax.device_get(self.state.params)
        name = first_non_finite(config.model, config.execution, params, micro_batches, key)
        raise WorkError(
            f"step {bad_step + 1} is not finite: the first bad tensor is {name} (its batch: "
            f"{self._places(bad_step)}); the state after step {bad_step} is saved in {directory.path}. Lower "
            "optimizer.learning_rate or optimizer.clip_norm, or leave such steps out with --train.non_finite skip, "
            f"then: {continue_command(directory)}"
        )

    def _places(self, step: int) -> str:
        """Return in words where the first windows of a step's batch lie; steps count from 0 here."""
        return ", ".join(self._batches.places_at(step)[:4]) + ", ..."


def continue_command(run: RunDirectory, *extra: str) -> str:
    """Return the command line that continues a run."""
    return shlex.join(["jaxgpt", "train", "--out", str(run.path), *extra])
