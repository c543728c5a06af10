"""What a run tells the person in front of it: plain lines, and a progress bar on a terminal."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import rich.progress
import rich.table

from jaxgpt.config import RunConfig, flatten, warn
from jaxgpt.model.bucket_table import bucket_lines
from jaxgpt.model.specs import INIT_STD, parameter_specs, walk

from .plain import PlainConsole

if TYPE_CHECKING:
    from .history import Validation
    from .loop import Evaluation


class Console:
    """Prints a run's facts and progress to standard output.

    On a terminal the steps are a progress bar; in a file each logged step is a line. A run is not lost because nobody
    can read what it prints any more (a closed pipe or terminal, a full disk): it goes on in silence, after a warning.
    """

    def __init__(self) -> None:
        self._out = PlainConsole(soft_wrap=True)
        self._bar: rich.progress.Progress | None = None
        self._task: Any = None
        self._config: RunConfig | None = None
        self._announce_first_loss = False

    def say(self, text: str = "") -> None:
        """Print one line."""
        with self._as_long_as_it_is_read():
            self._out.print(text)

    @contextlib.contextmanager
    def _as_long_as_it_is_read(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._out.quiet = True
            with contextlib.suppress(OSError):  # standard error may be the same terminal
                warn(f"standard output: {error.strerror}; the run goes on in silence, metrics.jsonl has its losses")

    def settings(self, config: RunConfig, origins: Mapping[str, str]) -> None:
        """Print the settings that differ from the defaults and where each came from."""
        values = flatten(config)
        self.say("settings that differ from the defaults:" if origins else "all settings are the defaults")
        for name, origin in origins.items():
            self.say(f"  {name} = {values[name]}  ({origin})")

    def model(self, config: RunConfig) -> None:
        """Print the parameter buckets and what weight decay applies to."""
        self.say()
        for line in bucket_lines(config.model):
            self.say(line)
        specs = list(walk(parameter_specs(config.model)))
        decayed = [spec.size for _, spec in specs if spec.decay]
        plain = [spec.size for _, spec in specs if not spec.decay]
        self.say(
            f"weight decay {config.optimizer.weight_decay:g} on {len(decayed)} matrices and embeddings "
            f"({sum(decayed):,} parameters), none on {len(plain)} biases and norm scales ({sum(plain):,})"
        )
        self.say()

    def start(self, config: RunConfig, start: int, *, fresh: bool) -> None:
        """Begin showing steps."""
        self._config, self._announce_first_loss = config, fresh
        if self._out.is_terminal:
            end = config.train.end
            steps = rich.table.Column(min_width=len(f"step {end}/{end}"))  # a narrow terminal cuts the description
            columns = (
                rich.progress.TextColumn("step {task.completed}/{task.total}", table_column=steps),
                rich.progress.BarColumn(bar_width=10),
                rich.progress.TextColumn("{task.description}"),
                rich.progress.TimeRemainingColumn(),
            )
            self._bar = rich.progress.Progress(*columns, console=self._out, transient=True)
            self._task = self._bar.add_task("", total=end, completed=start)
            with self._as_long_as_it_is_read():
                self._bar.start()
            if self._out.quiet:  # it is half started, and cannot be stopped
                self._bar = None

    def step(self, done: int, line: Mapping[str, float], *, logged: bool) -> None:
        """Show one step: its metrics, with the speed as it was when a line was logged last."""
        if done == 1 and self._announce_first_loss:
            self._first_loss(line["loss"])
        mfu = f"MFU {line['mfu']:.1%}" if "mfu" in line else "MFU n/a"
        text = f"loss {line['loss']:.4f}  {line['tokens_per_second']:,.0f} tokens/s  {mfu}"
        norm, rate = f"{line['grad_norm']:.3f}", f"{line['learning_rate']:.2e}"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=f"{text}  norm {norm}  rate {rate}")
        elif logged:
            waiting = f"waiting for data {line['loader_share']:.2%}"
            self.say(f"step {done:>6}  {text}  gradient norm {norm}  learning rate {rate}  {waiting}")

    def skipped(self, done: int, places: str | None, count: int) -> None:
        """Say that a step was left out, and where its batch lies unless that is None."""
        batch = "" if places is None else f" (its batch: {places})"
        self.say(f"step {done:>6}  not finite, skipped{batch}; {count} skipped so far")

    def _first_loss(self, loss: float) -> None:
        model = self._config.model
        uniform = math.log(model.vocab_size)
        expected = uniform + model.width * INIT_STD**2 / 2
        self.say(
            f"first loss {loss:.4f} nats; guessing evenly is ln V = ln {model.vocab_size} = {uniform:.4f}, "
            f"fresh weights give about ln V + C x 0.02^2 / 2 = {expected:.4f}"
        )

    def evaluated(self, evaluation: Evaluation, best: Validation | None) -> None:
        """Print the losses of an evaluation, and the best one so far."""
        whole, quick, train = evaluation.validation, evaluation.validation_estimate, evaluation.train_estimate
        self.say(
            f"step {evaluation.step:>6}  validation loss {whole.loss:.4f} ± {whole.standard_error:.4f} "
            f"(whole split, {whole.tokens:,} tokens); random batches: validation {quick.loss:.4f} "
            f"± {quick.standard_error:.4f}, train {train.loss:.4f} ± {train.standard_error:.4f}{_best_words(best)}"
        )
        for name, part in whole.parts:
            self.say(f"  {name}: {part.loss:.4f} ± {part.standard_error:.4f} ({part.tokens:,} tokens)")

    def close(self) -> None:
        """Take the progress bar down."""
        if self._bar is not None:
            with self._as_long_as_it_is_read():
                self._bar.stop()
            self._bar = None


def _best_words(best: Validation | None) -> str:
    return "" if best is None else f"; best validation so far {best.loss:.4f} at step {best.step}"
