"""The compiled programs of a run, and the batches that they are given."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping

import jax
import numpy as np
import optax
from jax.sharding import Mesh

from jaxgpt.config import RequestError, RunConfig
from jaxgpt.data.batches import TrainingBatches, evaluation_batches
from jaxgpt.data.examples import Examples
from jaxgpt.data.mixture import Mixture
from jaxgpt.model.parameters import Params
from jaxgpt.ops.keys import random_key
from jaxgpt.sharding.mesh import data_mesh, place, replicated, split_rows

from .estimates import estimate_batches, evaluation_rows
from .evaluate import Estimate, EvaluationStep, evaluate, make_evaluation_step, weighted
from .material import Material
from .optimizer import learning_rate_schedule, make_optimizer
from .step import TrainState, TrainStep, make_train_step, split_micro_batches


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
        return evaluation_rows(self.config)

    def evaluation_batches(self, examples: Examples) -> Iterator[dict[str, jax.Array]]:
        """Yield the examples that cover a split, on the devices."""
        for batch in evaluation_batches(examples, batch_size=self.evaluation_rows):
            yield place(batch, split_rows(self.mesh))

    def evaluate_whole(self, params: Params, examples: Examples) -> Estimate:
        """Return the loss of a split: of a mixture that of each file, and their mean by the weights of training."""
        if isinstance(examples, Mixture):
            parts = [self.evaluate_whole(params, part) for part in examples.parts]
            return weighted(parts, examples.shares, examples.names)
        return evaluate(self.evaluation_step, params, self.evaluation_batches(examples))

    def random_batches(self, examples: Examples) -> Iterator[dict[str, jax.Array]]:
        """Yield the `train.eval_batches` random batches of a split's quick estimate; the same ones each time."""
        for batch in estimate_batches(self.config, examples):
            yield place(batch, split_rows(self.mesh))


def make_mesh(config: RunConfig) -> Mesh:
    """Return the mesh that shares a micro-batch's rows.

    Raises:
        RequestError: the run is to be compiled for another platform than the one at hand.
    """
    platform, here = config.execution.platform, jax.default_backend()
    if platform not in ("auto", here):
        raise RequestError(f"execution.platform is {platform}, but this process computes on {here}; leave it at auto")
    return data_mesh(config.train.batch_size // config.train.accumulate, config.mesh.data)


def run_optimizer(config: RunConfig) -> optax.GradientTransformation:
    """Return the optimizer of a run."""
    return make_optimizer(config.optimizer, config.model, config.train.steps)


def training_batches(material: Material) -> TrainingBatches:
    """Return the batches of a run, each a pure function of (seed, step)."""
    train = material.config.train
    return TrainingBatches(material.splits.train, batch_size=train.batch_size, seed=train.seed)


def compile_programs(material: Material, mesh: Mesh, state: TrainState) -> Programs:
    """Compile the train step and the evaluation step, each once for the whole run."""
    start = time.perf_counter()
    config, everywhere = material.config, replicated(mesh)
    train_step = make_train_step(
        config.model,
        config.execution,
        run_optimizer(config),
        learning_rate=learning_rate_schedule(config.optimizer, config.train.steps),
        key=random_key(config.train.seed),
        non_finite=config.train.non_finite,
    )
    evaluation_step = make_evaluation_step(config.model, config.execution)
    bare = Programs(config, mesh, train_step, evaluation_step, 0.0)
    batch = bare.place_batch(training_batches(material).batch_at(0))
    rows = next(bare.evaluation_batches(material.splits.validation))
    with jax.set_mesh(mesh):  # attention divides its rows by it
        compiled_train = jax.jit(train_step, donate_argnums=0, out_shardings=everywhere).lower(state, batch).compile()
        compiled_evaluation = jax.jit(evaluation_step).lower(state.params, rows).compile()
    seconds = time.perf_counter() - start
    return Programs(config, mesh, compiled_train, compiled_evaluation, seconds)
