"""What a run logs and shows while it trains: steps and their speed, evaluations, samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jax.sharding import Mesh

from jaxgpt.config import WorkError
from jaxgpt.model.parameters import Params

from .clock import Clock
from .console import Console
from .history import Validation, best_of, logged_validations, rising_note
from .material import Material
from .samples import sample_lines
from .setup import OpenRun
from .utilization import Utilization

if TYPE_CHECKING:
    from .loop import Evaluation


class _Reading(NamedTuple):
    """What had been counted when a line was logged."""

    steps: int = 0
    training: float = 0.0
    waiting: float = 0.0


class Reporter:
    """Takes over what the loop finds out; nothing that it does changes a number of the run.

    Args:
        run: Where to log. What its `metrics.jsonl` holds already belongs to the same run, up to where it continues.
        material: The run's config, text and tokenizer.
        mesh: The devices that the steps run on.
        console: Where to show.

    Attributes:
        clock: Where the run's time goes: "training", within it "waiting for data", and beside it "evaluating",
            "saving" and "sampling".
        steps_done: Steps that this process has done.
        tokens_per_step: Tokens that the model reads in a step, sources included; the loop sets it.
    """

    def __init__(self, run: OpenRun, material: Material, mesh: Mesh, console: Console) -> None:
        self._run, self._material, self._console = run, material, console
        self._utilization = Utilization(material.config, mesh)
        self._history = logged_validations(run.directory.metrics_path)
        self._last = _Reading()
        self._speed: dict[str, float] = {}
        self.clock = Clock()
        self.steps_done = 0
        self.tokens_per_step = 0

    @property
    def tokens_per_second(self) -> float:
        """Tokens read per second of stepping, over all steps; without evaluations, samples and saves."""
        return self.steps_done * self.tokens_per_step / self.clock.seconds("training")

    def step(self, done: int, metrics: dict[str, float]) -> None:
        """Take the metrics of a step: every `train.log_every`-th is logged, each is shown on a terminal."""
        train = self._material.config.train
        self.steps_done += 1
        logged = done == 1 or done % train.log_every == 0 or done == train.steps
        now = _Reading(self.steps_done, self.clock.seconds("training"), self.clock.seconds("waiting for data"))
        if logged or not self._speed:
            self._speed = self._speed_between(self._last, now)
        if logged:
            self._last = now
            self._log(done, metrics | self._speed)
        self._console.step(done, metrics | self._speed, logged=logged)

    def _log(self, done: int, numbers: dict[str, float]) -> None:
        self._run.log.write(done, numbers)
        if self._run.remote is not None:
            self._run.remote.write(done, numbers)

    def _speed_between(self, line: _Reading, now: _Reading) -> dict[str, float]:
        """Return what the clock says of the steps since a line; the names are those of `MEASURED`.

        Elapsed seconds count, but not those of evaluations, samples and saves that the steps waited for.
        """
        seconds = now.training - line.training
        tokens_per_second = (now.steps - line.steps) * self.tokens_per_step / seconds
        mfu = self._utilization.at(tokens_per_second)
        speed = {"tokens_per_second": tokens_per_second, "loader_share": (now.waiting - line.waiting) / seconds}
        return speed if mfu is None else speed | {"mfu": mfu}

    def evaluated(self, evaluation: Evaluation) -> None:
        """Log and show an evaluation, the best one so far beside it, and say when validation keeps rising."""
        whole = evaluation.validation
        self._log(
            evaluation.step,
            {
                "validation_loss": whole.loss,
                "validation_standard_error": whole.standard_error,
                "validation_estimate": evaluation.validation_estimate.loss,
                "train_estimate": evaluation.train_estimate.loss,
            }
            | {f"validation_loss/{name}": part.loss for name, part in whole.parts},
        )
        self._history.append(Validation(evaluation.step, whole.loss))
        self._console.evaluated(evaluation, best_of(self._history))
        note = rising_note(self._history, self._material.config.train.note_after_rises)
        if note is not None:
            self._console.say(f"note: {note}")

    def is_sample_due(self, done: int) -> bool:
        """Return whether `train.sample_every` asks for a sample on the way; the end has one anyway."""
        train = self._material.config.train
        return train.sample_every is not None and done % train.sample_every == 0 and done != train.steps

    def sample(self, done: int, params: Params) -> None:
        """Show what the model writes and keep it in `samples.jsonl`, unless `train.sample_tokens` is 0.

        A model that can write nothing, since its logits are not finite, is no reason to end the run that trains it.
        """
        if not self._material.config.train.sample_tokens:
            return
        try:
            with self.clock.measure("sampling"):
                text = "\n".join(sample_lines(self._material, params))
        except WorkError as failure:
            self._console.say(f"step {done:>6}  no sample: {failure}")
        else:
            self._run.log.write_sample(done, text)
            self._console.say(f"step {done:>6}  {text}")
