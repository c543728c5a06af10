"""Whole runs in child processes: started, killed at a moment, continued, and compared bit for bit with a whole one.

The tests of faults and `bench/endurance.py` share this.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from repeatable import repeatable_metrics

from jaxgpt.runs.checkpoints import RECORD, CheckpointStore
from jaxgpt.runs.metrics import read_metrics, read_samples
from jaxgpt.runs.step_folders import saved_steps

# Dropout, micro-batches, many evaluations, saves and samples, and an epoch that ends inside the run.
SETTINGS = {
    "model.context_length": 16,
    "model.width": 32,
    "model.layers": 1,
    "model.heads": 2,
    "model.embedding_dropout": 0.1,
    "model.attention_dropout": 0.1,
    "model.residual_dropout": 0.1,
    "train.steps": 100,
    "train.batch_size": 8,
    "train.accumulate": 2,
    "train.eval_every": 10,
    "train.eval_batches": 15,
    "train.save_every": 7,
    "train.log_every": 1,
    "train.sample_tokens": 5,
    "train.sample_every": 25,
    "optimizer.warmup_steps": 10,
}
TEXT = "".join(chr(97 + i * i % 26) + " " * (i % 7 == 0) for i in range(1000))
LEFTOVERS = re.compile(r"^\.|tmp|unfinished|damaged")  # what a run that ended well has nowhere in its folder
_PATIENCE = 120  # seconds that a child may take
_PROGRAM = "import sys; from jaxgpt.cli import main; sys.exit(main())"


@dataclasses.dataclass(frozen=True)
class Workshop:
    """A folder in which runs are trained: their text, the programs that they share, and the runs.

    Args:
        folder: Where all of it lies; it exists.
        settings: `{"section.field": value}` of every run.
    """

    folder: Path
    settings: dict = dataclasses.field(default_factory=lambda: SETTINGS)

    def run_path(self, name: str) -> Path:
        """Return where the run of that name lies."""
        return self.folder / "runs" / name

    def start(self, name: str, *, prelude: str = "", settings: dict | None = None, silent: bool = False) -> Child:
        """Start `jaxgpt train --out NAME` in a process of its own; on an existing run it continues.

        Args:
            name: The run's.
            prelude: Python that the child executes before the program starts.
            settings: Laid over those of the workshop.
            silent: Whether its standard output is dropped.
        """
        text = self.folder / "text.txt"
        if not text.exists():
            text.write_text(TEXT)
        (self.folder / "runs").mkdir(exist_ok=True)
        settings = self.settings | {"data.path": str(text)} | (settings or {})
        options = [word for option, value in settings.items() for word in (f"--{option}", str(value).lower())]
        command = ["train", "--out", str(self.run_path(name)), *options]
        return Child.start(command, self.folder, prelude=prelude, silent=silent)


@dataclasses.dataclass
class Child:
    """A process of the program, its output in files (a pipe that nobody empties would stop it)."""

    process: subprocess.Popen
    out: Path
    err: Path

    @classmethod
    def start(cls, arguments: list[str], folder: Path, *, prelude: str = "", silent: bool = False) -> Child:
        """Run `jaxgpt ARGUMENTS` in `folder`, where compiled programs are kept from one child to the next."""
        number = len(list(folder.glob("*.out")))
        out, err = folder / f"{number}.out", folder / f"{number}.err"
        environment = os.environ | {
            "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        with out.open("wb") as standard_output, err.open("wb") as standard_error:
            process = subprocess.Popen(
                [sys.executable, "-c", f"{prelude}\n{_PROGRAM}", *arguments],
                cwd=folder,
                env=environment,
                stdout=subprocess.DEVNULL if silent else standard_output,
                stderr=standard_error,
            )
        return cls(process, out, err)

    def wait_for(self, condition: Callable[[], bool]) -> bool:
        """Look every millisecond; return whether the condition came true before the child ended."""
        deadline = time.monotonic() + _PATIENCE
        while not condition():
            if self.process.poll() is not None:
                return False
            assert time.monotonic() < deadline, self.words()
            time.sleep(0.001)
        return True

    def kill(self) -> None:
        """End it as no program can prevent or notice."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def ended(self) -> int:
        """Wait for its end and return the exit code."""
        return self.process.wait(_PATIENCE)

    def words(self) -> str:
        """Return what it printed, standard error last."""
        return self.out.read_text() + self.err.read_text()


@dataclasses.dataclass(frozen=True)
class Traces:
    """What a run leaves that must not depend on what happened to it.

    Attributes:
        hashes: `{item: {path: {dtype, shape, sha256}}}` of the last checkpoint: parameters and moments.
        lines: Every logged line, without the fields that a clock gave, and every sample.
        entries: The names in its folder and in that of its checkpoints.
    """

    hashes: dict
    lines: list
    entries: list

    @classmethod
    def of(cls, run: Path) -> Traces:
        """Read them, every array compared with its hash."""
        with CheckpointStore(run / "checkpoints", writable=False) as store:
            step = store.steps()[-1]
            store.verify(step)
        record = json.loads((run / "checkpoints" / str(step) / RECORD / "metadata").read_text())
        names = [path.name for folder in (run, run / "checkpoints") for path in folder.iterdir()]
        return cls(record["items"], repeatable_metrics(run) + read_samples(run / "samples.jsonl"), sorted(names))

    @classmethod
    def of_whole(cls, workshop: Workshop, name: str) -> tuple[Traces, float]:
        """Train a run that nothing happens to; return what it leaves and the seconds it took."""
        start = time.monotonic()
        child = workshop.start(name)
        assert child.ended() == 0, child.words()
        return cls.of(workshop.run_path(name)), time.monotonic() - start

    def check_same(self, other: Traces, *, besides: Iterable[str] = ()) -> None:
        """Assert that another run left the same, and nothing besides but what is named."""
        assert self.hashes == other.hashes
        assert self.lines == other.lines
        assert self.entries == sorted([*other.entries, *besides])
        assert not [name for name in other.entries if LEFTOVERS.search(name)]


def phase(run: Path, eval_every: int) -> str:
    """Return what a run was doing, from what lies in its folder."""
    if not (run / "manifest.json").exists():
        return "starting"
    if unfinished_saves(run):
        return "saving"
    lines = logged(run)
    if not lines:
        return "compiling"
    last = lines[-1]
    return "evaluating" if "validation_loss" not in last and last["step"] % eval_every == 0 else "stepping"


def logged(run: Path) -> list[dict]:
    """Return the lines logged so far; none where there is no file yet."""
    return read_metrics(run / "metrics.jsonl") if (run / "metrics.jsonl").exists() else []


def unfinished_saves(run: Path) -> list[str]:
    """Return the names of the checkpoints that are being written."""
    folder = run / "checkpoints"
    return [] if not folder.is_dir() else [name for name in os.listdir(folder) if not name.isdecimal()]


def committed(run: Path) -> int:
    """Return the newest committed step, 0 where there is none."""
    return max(saved_steps(run / "checkpoints"), default=0)


@dataclasses.dataclass(frozen=True)
class Kill:
    """One run that was killed and continued.

    Attributes:
        moment: What was aimed at: seconds after the start, or "saving", "evaluating".
        phase: What the run was doing when it died.
        step: The newest checkpoint, from which it was continued.
    """

    moment: float | str
    phase: str
    step: int


def kill_and_continue(workshop: Workshop, name: str, moment: float | str, after: int, whole: Traces) -> Kill:
    """Kill a run at a moment, continue it, and assert that it ends as the whole one did.

    Args:
        workshop: Where it is trained.
        name: The run's; no such run exists.
        moment: Seconds after the start, or the phase to wait for: "saving", "evaluating".
        after: The step at which to begin to wait for the phase.
        whole: What the run leaves that was never killed.
    """
    run, eval_every = workshop.run_path(name), workshop.settings["train.eval_every"]
    child = workshop.start(name)
    seen = _wait_until(child, run, moment, after, eval_every)
    child.kill()
    state, step = phase(run, eval_every), committed(run)
    assert step >= seen, f"checkpoint {seen} was committed and is gone"
    child = workshop.start(name)
    assert child.ended() == 0, child.words()
    said = re.search(r"continuing \S+ after step (\d+)", child.words())
    finished = "nothing to do" in child.words()
    assert finished or (int(said.group(1)) if said else 0) == step, child.words()
    Traces.of(run).check_same(whole)
    return Kill(moment, state, step)


def _wait_until(child: Child, run: Path, moment: float | str, after: int, eval_every: int) -> int:
    """Wait for the moment; return the newest checkpoint that was there before it."""
    if not isinstance(moment, str):
        time.sleep(moment)
        return committed(run)
    assert child.wait_for(lambda: committed(run) >= after), child.words()
    assert child.wait_for(lambda: phase(run, eval_every) == moment), f"the run ended and was never seen {moment}"
    return committed(run)


def moments(workshop: Workshop, count: int, life: float, rng: random.Random) -> Iterator[tuple[float | str, int]]:
    """Yield a moment and the step to wait for it from: of five kills three at any time, two inside a phase.

    Args:
        workshop: Where the runs are trained.
        count: How many.
        life: Seconds from a run's start to its end.
        rng: Where the randomness comes from.
    """
    last = workshop.settings["train.steps"] - 2 * workshop.settings["train.save_every"]
    for i in range(count):
        aimed = {1: "saving", 3: "evaluating"}.get(i % 5)
        yield (aimed, rng.randint(0, last)) if aimed else (rng.uniform(0, life), 0)
