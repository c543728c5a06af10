"""Everything a run needs before its first step: text, ids, run directory, compiled programs, state."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
from jax.sharding import Mesh

from jaxgpt.config import ModelConfig, RequestError, RunConfig, WorkError, flatten
from jaxgpt.data.batches import TrainingBatches, count_windows, evaluation_batches
from jaxgpt.data.corpus import Corpus, check_same_corpus, load_corpus, split_by_position
from jaxgpt.data.tokenizer import Tokenizer, choose_tokenizer, tokenizer_from_json
from jaxgpt.model.parameters import Params, init
from jaxgpt.runs.checkpoints import CheckpointStore
from jaxgpt.runs.directory import RunDirectory, fresh_run_path, is_run
from jaxgpt.runs.manifest import Manifest
from jaxgpt.runs.saved import load_run
from jaxgpt.sharding.mesh import data_mesh, place, replicated, split_rows

from .evaluate import EvaluationStep, make_evaluation_step
from .optimizer import make_optimizer
from .step import NO_BAD_STEP, TrainState, TrainStep, initial_state, make_train_step, split_micro_batches

# Settings that a checkpoint's numbers depend on in a way that no later step can make good.
_FIXED = ("model.", "data.", "train.seed", "train.batch_size", "train.init_from")
_BY_CONTENT = ("data.path", "data.tokenizer")  # may be named otherwise; `gather_material` compares what they hold

Warn = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Material:
    """A run's text and what became of it.

    Attributes:
        config: The run's config, its vocabulary size filled in from the tokenizer.
        corpus: The text and its identity.
        tokenizer: Its tokenizer.
        train_ids_N, validation_ids_N: The two splits as ids.
        start: Parameters to start from (`train.init_from`), or None for fresh ones.
    """

    config: RunConfig
    corpus: Corpus
    tokenizer: Tokenizer
    train_ids_N: np.ndarray
    validation_ids_N: np.ndarray
    start: Params | None


def with_vocabulary(config: RunConfig, tokenizer: Tokenizer) -> RunConfig:
    """Fill in `model.vocab_size` from the tokenizer; a differing explicit one is refused."""
    wanted, size = config.model.vocab_size, tokenizer.vocab_size
    if wanted is not None and wanted != size:
        raise RequestError(
            f"model.vocab_size is {wanted}, but the tokenizer has {size} ids; leave model.vocab_size out, "
            "it is taken from the tokenizer"
        )
    return dataclasses.replace(config, model=config.model.replace(vocab_size=size))


def _check_same_model(wanted: ModelConfig, found: ModelConfig, source: str) -> None:
    """Fine-tuning may change the dropout probabilities, nothing else of the architecture."""
    for name in wanted.field_names():
        ours, theirs = getattr(wanted, name), getattr(found, name)
        if ours != theirs and not name.endswith("_dropout") and not (name == "vocab_size" and ours is None):
            raise RequestError(
                f"train.init_from {source} has model.{name} = {theirs}, this run asks for {ours}; "
                f"set model.{name} to {theirs}, or start from another run"
            )


def gather_material(config: RunConfig, manifest: Manifest | None, warn: Warn) -> Material:
    """Read the text, make or take over the tokenizer, encode and split.

    Args:
        config: What the run asks for.
        manifest: The manifest of the run that is being continued, or None for a new run.
        warn: Called with one message for each damaged checkpoint of `train.init_from`.

    Raises:
        RequestError: text or vocabulary that does not fit; nothing has been written yet.
    """
    corpus, start, named = load_corpus(config.data.path), None, config.data.tokenizer
    trained = owner = None
    if manifest is not None:
        owner, trained = "this run", tokenizer_from_json(manifest.tokenizer)
        check_same_corpus(manifest.data, corpus)
        named = None if named == manifest.config.data.tokenizer else named  # its file may be gone by now
    elif config.train.init_from is not None:
        owner = config.train.init_from
        source, start, trained, _ = load_run(owner, warn)
        _check_same_model(config.model, source.model, owner)
        config = dataclasses.replace(config, model=config.model.replace(vocab_size=source.model.vocab_size))
    tokenizer = choose_tokenizer(named, corpus.text, trained=trained, owner=owner)
    config = with_vocabulary(config, tokenizer)
    train_ids_N, validation_ids_N = split_by_position(tokenizer.encode(corpus.text), config.data.validation_fraction)
    for ids_N, name in ((train_ids_N, "training"), (validation_ids_N, "validation")):
        count_windows(len(ids_N), config.model.context_length, f"the {name} split")
    return Material(config, corpus, tokenizer, train_ids_N, validation_ids_N, start)


def changed_settings(stored: RunConfig, wanted: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Return {name: (stored, wanted)} of the settings that differ.

    Raises:
        RequestError: one of them cannot change without making the run another run.
    """
    before, after = flatten(stored), flatten(wanted)
    after["model.vocab_size"] = after["model.vocab_size"] or before["model.vocab_size"]
    changes = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    fixed = [name for name in changes if name.startswith(_FIXED) and name not in _BY_CONTENT]
    if fixed:
        listed = "; ".join(f"{name} is {changes[name][0]}, not {changes[name][1]}" for name in fixed)
        raise RequestError(
            f"this run cannot continue with other settings: {listed}. Leave them out, or start a new run"
        )
    return changes


def open_run(material: Material, out: Path | None, command: str | None) -> RunDirectory:
    """Return the run directory: the existing one at `out`, a new one there, or a fresh one under `runs/`.

    On an existing run the manifest takes over the settings that changed; it is written once the run is locked.
    """
    path = out or fresh_run_path(Path("runs"), "run")
    if is_run(path):
        return RunDirectory(path, dataclasses.replace(RunDirectory.open(path).manifest, config=material.config))
    manifest = Manifest(
        config=material.config,
        data=material.corpus.identity,
        tokenizer=material.tokenizer.to_json(),
        command=command,
    )
    return RunDirectory.create(path, manifest)


@dataclasses.dataclass(frozen=True)
class Programs:
    """The compiled programs of a run and the mesh they run on.

    Attributes:
        train_step: (state, micro-batches) -> (state, metrics); the state is donated.
        evaluation_step: (params, batch) -> (loss sums, token counts) per row.
        compile_seconds: What compiling both took.
    """

    config: RunConfig
    mesh: Mesh
    train_step: TrainStep
    evaluation_step: EvaluationStep
    compile_seconds: float

    def place_batch(self, batch: Mapping[str, np.ndarray]) -> dict[str, jax.Array]:
        """Split a batch [B,T] into micro-batches [K,B/K,T] and spread their rows over the devices."""
        micro_batches = split_micro_batches(batch, self.config.train.accumulate)
        return place(micro_batches, split_rows(self.mesh, axis=1))

    @property
    def evaluation_rows(self) -> int:
        """Rows of an evaluation batch: those of a micro-batch, whose memory is known to fit."""
        return self.config.train.batch_size // self.config.train.accumulate

    def evaluation_batches(self, ids_N: np.ndarray) -> Iterator[dict[str, jax.Array]]:
        """Yield the non-overlapping windows of a split, on the devices."""
        length = self.config.model.context_length
        for batch in evaluation_batches(ids_N, context_length=length, batch_size=self.evaluation_rows):
            yield place(batch, split_rows(self.mesh))

    def random_batches(self, ids_N: np.ndarray) -> Iterator[dict[str, jax.Array]]:
        """Yield the `train.eval_batches` random batches of a split's quick estimate; the same ones each time."""
        batches = TrainingBatches(
            ids_N,
            context_length=self.config.model.context_length,
            batch_size=self.evaluation_rows,
            seed=self.config.train.seed,
        )
        for i in range(self.config.train.eval_batches):
            yield place(batches.batch_at(i), split_rows(self.mesh))


def run_optimizer(config: RunConfig) -> optax.GradientTransformation:
    """Return the optimizer of a run."""
    return make_optimizer(config.optimizer, config.model, config.train.steps)


def compile_programs(config: RunConfig, mesh: Mesh, state: TrainState, material: Material) -> Programs:
    """Compile the train step and the evaluation step, each once for the whole run."""
    start = time.perf_counter()
    train_step = make_train_step(
        config.model, config.execution, run_optimizer(config), key=jax.random.key(config.train.seed)
    )
    evaluation_step = make_evaluation_step(config.model, config.execution)
    bare = Programs(config, mesh, train_step, evaluation_step, 0.0)
    batch = bare.place_batch(training_batches(material).batch_at(0))
    everywhere = replicated(mesh)
    compiled_train = jax.jit(train_step, donate_argnums=0, out_shardings=everywhere).lower(state, batch).compile()
    rows = next(bare.evaluation_batches(material.validation_ids_N))
    compiled_evaluation = jax.jit(evaluation_step).lower(state.params, rows).compile()
    seconds = time.perf_counter() - start
    return Programs(config, mesh, compiled_train, compiled_evaluation, seconds)


def training_batches(material: Material) -> TrainingBatches:
    """Return the batches of a run, each a pure function of (seed, step)."""
    config = material.config
    return TrainingBatches(
        material.train_ids_N,
        context_length=config.model.context_length,
        batch_size=config.train.batch_size,
        seed=config.train.seed,
    )


def starting_state(material: Material, mesh: Mesh, store: CheckpointStore, warn: Warn) -> TrainState:
    """Return the newest usable checkpoint's state, or the state before the first step."""
    config, optimizer = material.config, run_optimizer(material.config)
    params = material.start or init(config.model, key=jax.random.key(config.train.seed))
    state = place(initial_state(params, optimizer), replicated(mesh))
    if not store.steps():
        if store.damaged():
            raise WorkError(
                f"no usable checkpoint is left, the damaged ones ({', '.join(store.damaged())}) were moved aside; "
                "put a good copy back, or start the run again in a new folder"
            )
        return state
    restored = store.restore({"params": state.params, "optimizer": state.opt_state}, warn=warn)
    scalars = place((np.int32(restored.step), np.int32(NO_BAD_STEP)), replicated(mesh))
    return TrainState(scalars[0], restored.items["params"], restored.items["optimizer"], scalars[1])


def make_mesh(config: RunConfig) -> Mesh:
    """Return the mesh that shares a micro-batch's rows."""
    return data_mesh(config.train.batch_size // config.train.accumulate, config.mesh.data)
