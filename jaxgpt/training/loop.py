"""The training loop: steps, metrics one step late, evaluations, checkpoints, and the ways it can end."""

from __future__ import annotations

import dataclasses
import math
import shlex
import time
from collections.abc import Iterator
from typing import Any, NoReturn

import jax

from jaxgpt.config import RunConfig, WorkError, some
from jaxgpt.ops.keys import random_key
from jaxgpt.runs.directory import RunDirectory

from .console import Console
from .diagnose import UPDATE, first_non_finite
from .evaluate import Estimate, evaluate
from .material import Material
from .programs import Programs, training_batches
from .reporter import Reporter
from .saver import Saver
from .setup import OpenRun, saved_items
from .step import NO_BAD_STEP, Metrics, TrainState, dropout_key, split_micro_batches
from .stop import StoppedError, StopRequest

MOST_SKIPPED_IN_A_ROW = 10  # so many different batches cannot all be to blame
_SKIPPED_IN_FULL = 3  # of those skipped, the first ones are shown with their batch
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
        self._saver = Saver(run.store, int(state.step))
        self._saved_at = time.monotonic()
        self._skipped, self._skipped_in_a_row = int(state.skipped), 0
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
            WorkError: a step was not finite, or too many in a row were skipped (the last good state is saved); or a
                file of ids was written to.
        """
        start = int(self.state.step)
        with self._batches.stream(start) as stream:
            with self.clock.measure("training"), self.clock.measure("waiting for data"):
                batch = self._programs.place_batch(next(stream))
            self.reporter.tokens_per_step = sum(batch[name].size for name in _READ if name in batch)
            for done in range(start + 1, self.config.train.end + 1):
                batch = self._train_one(batch, stream, done)
                self._between_steps(done)
                self._stop_skipping(done)
                self._stop_if_asked(request, done)
        self._saver.save_for_good(*self._checkpoint(done))
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
        self._count_skipped(done, int(metrics["skipped"]))
        self.reporter.step(done, metrics)

    def _count_skipped(self, done: int, skipped: int) -> None:
        """Say so where the step just settled was skipped; `skipped` are those up to it."""
        is_new = skipped > self._skipped
        self._skipped, self._skipped_in_a_row = skipped, self._skipped_in_a_row + 1 if is_new else 0
        if is_new:
            self._console.skipped(done, self._places(done - 1) if skipped <= _SKIPPED_IN_FULL else None, skipped)

    def _stop_skipping(self, done: int) -> None:
        """End a run that skips one step after the other."""
        if self._skipped_in_a_row >= MOST_SKIPPED_IN_A_ROW - 1:
            self._settle()  # one more may be running, and may be a good one
        if self._skipped_in_a_row >= MOST_SKIPPED_IN_A_ROW:
            self._fail(done - 1, f", the last of {self._skipped_in_a_row} in a row that were skipped")

    def _between_steps(self, done: int) -> None:
        train = self.config.train
        evaluating = done % train.eval_every == 0 or done == train.steps
        saving = done % train.save_every == 0 or done == train.end or self._minutes_are_over()
        sampling = self.reporter.is_sample_due(done)
        if evaluating or saving or sampling:
            with self.clock.measure("training"):
                self._settle()
            self._stop_if_data_changed()
        if evaluating:
            self._evaluate(done)
        if sampling:
            self.reporter.sample(done, self.state.params)
        if saving or (evaluating and self._is_best()):
            with self.clock.measure("saving"):
                self._saver.save(*self._checkpoint(done))
            self._saved_at = time.monotonic()

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

    def _checkpoint(self, done: int) -> tuple[int, dict[str, Any], float | None]:
        """Return what is saved of the present state, and its validation loss if it was measured."""
        evaluated = self.evaluation is not None and self.evaluation.step == done
        return done, saved_items(self.state), self.evaluation.validation.loss if evaluated else None

    def _stop_if_asked(self, request: StopRequest, done: int) -> None:
        """Save and stop where a signal asked for it; a run that is complete has nothing to stop."""
        if request.signal_number is None or done == self.config.train.steps:
            return
        self._settle()
        self._stop_if_data_changed()
        self._saver.save_for_good(*self._checkpoint(done))
        command = continue_command(self._run.directory)
        raise StoppedError(
            f"stopped by a signal after step {done}, saved; continue with: {command}", request.signal_number
        )

    def _stop_if_data_changed(self) -> None:
        """Stop where a file of ids, checked before the first step, has been written to since; save nothing then."""
        changed = self._material.sources.changed()
        if changed:
            raise WorkError(
                f"{some(changed)} changed since it was checked, so the last steps may have read other ids, and "
                "nothing more was saved; the checkpoints are from before. Put back what it held, then: "
                f"{continue_command(self._run.directory)}"
            )

    def _fail(self, bad_step: int, besides: str = "") -> NoReturn:
        """Save the last good state, run the failed step again with tracing, and say what went wrong."""
        self._stop_if_data_changed()
        saved = self._saved_in_words(int(self.state.step))
        name = self._first_non_finite(bad_step)
        advice = "Lower optimizer.learning_rate or optimizer.clip_norm"
        if not besides and self._first_non_finite(bad_step + 1) == UPDATE != name:
            advice += ", or leave such steps out with --train.non_finite skip (the next batch is finite)"
        raise WorkError(
            f"step {bad_step + 1} is not finite{besides}: the first bad tensor is {name} (its batch: "
            f"{self._places(bad_step)}); {saved}. {advice}, then: {continue_command(self._run.directory)}"
        )

    def _first_non_finite(self, step: int) -> str:
        """Run a step from the present parameters, with tracing, and name its first bad tensor."""
        config = self.config
        micro_batches = split_micro_batches(self._batches.batch_at(step), config.train.accumulate)
        key = dropout_key(config.model, random_key(config.train.seed), step)
        params = jax.device_get(self.state.params)
        return first_non_finite(config.model, config.execution, params, micro_batches, key)

    def _saved_in_words(self, done: int) -> str:
        """Save the present state and say so, or why that failed."""
        try:
            self._saver.save_for_good(*self._checkpoint(done))
        except WorkError as failure:
            return f"the state after step {done} is not saved: {failure}"
        return f"the state after step {done} is saved in {self._run.directory.path}"

    def _places(self, step: int) -> str:
        """Return in words where the first windows of a step's batch lie; steps count from 0 here."""
        return ", ".join(self._batches.places_at(step)[:4]) + ", ..."


def continue_command(run: RunDirectory, *extra: str) -> str:
    """Return the command line that continues a run."""
    return shlex.join(["jaxgpt", "train", "--out", str(run.path), *extra])
