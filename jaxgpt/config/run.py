"""The sections of a run beside the architecture, and `RunConfig`, which holds them all."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from .data import DataConfig
from .errors import RequestError
from .model import ModelConfig
from .section import Section, option

_ROUNDS_TO_ONE = 1 - 2.0**-25  # half way from the largest float32 below 1
AttentionName = Literal["auto", "reference", "dense", "blocked", "decode", "cudnn", "splash", "tokamax"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExecutionConfig(Section):
    """How a computation runs; it never changes the result beyond rounding."""

    section: ClassVar[str] = "execution"

    compute_dtype: Literal["float32", "bfloat16"] = option(
        "float32", "Number format of activations and matmuls; softmax, norms, logits and loss stay float32."
    )
    attention: AttentionName = option(
        "auto", "Attention implementation; a named one is used or refused, never replaced."
    )
    platform: Literal["auto", "cpu", "gpu", "tpu"] = option(
        "auto", "What the program is compiled for, which attention is chosen by; auto is JAX's default backend."
    )
    remat: bool = option(False, "Recompute each block in the backward pass instead of storing its inside.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizerConfig(Section):
    """AdamW with warm-up and cosine decay."""

    section: ClassVar[str] = "optimizer"

    learning_rate: float = option(1e-3, "Peak learning rate, reached after the warm-up.", above=0)
    final_learning_rate: float = option(1e-4, "Learning rate at the end of the cosine.", at_least=0)
    warmup_steps: int = option(100, "Steps of linear warm-up; step i uses peak x (i+1)/(warmup+1).", at_least=0)
    beta1: float = option(0.9, "Decay of Adam's first moment.", at_least=0, below=1)
    beta2: float = option(0.99, "Decay of Adam's second moment.", at_least=0, below=1)
    epsilon: float = option(1e-8, "Added to the root of Adam's second moment.", above=0)
    weight_decay: float = option(0.1, "Decoupled weight decay of matrices and embeddings.", at_least=0)
    clip_norm: float | None = option(1.0, "Largest global gradient norm; none turns clipping off.", above=0)

    def check(self) -> None:
        self._check_betas()
        if self.final_learning_rate * self.weight_decay >= 2:
            raise RequestError(
                f"optimizer.weight_decay {self.weight_decay:g} x optimizer.final_learning_rate "
                f"{self.final_learning_rate:g} is 2 or more: from the warm-up on, each step's decay alone would turn "
                "the weights' signs and make them larger; lower one of the two"
            )
        if self.final_learning_rate > self.learning_rate:
            raise RequestError(
                f"optimizer.final_learning_rate {self.final_learning_rate:g} is above "
                f"optimizer.learning_rate {self.learning_rate:g}; the cosine only falls: lower the first "
                "or raise the second"
            )

    def _check_betas(self) -> None:
        """Refuse what is below 1 as written, but not as the float32 that training computes in."""
        for name in ("beta1", "beta2"):
            if getattr(self, name) >= _ROUNDS_TO_ONE:
                raise RequestError(
                    f"optimizer.{name} {getattr(self, name)!r} is 1 in float32, which training computes in: Adam's "
                    "bias correction would divide by 0; use at most 0.9999999"
                )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainConfig(Section):
    """How long and how often."""

    section: ClassVar[str] = "train"

    steps: int = option(2000, "Optimizer steps of the whole schedule.", at_least=1)
    stop_after: int | None = option(
        None, "Pause at this absolute step, saved, without shortening the schedule.", at_least=1
    )
    batch_size: int = option(12, "Sequences per optimizer step, over all micro-batches and devices.", at_least=1)
    accumulate: int = option(1, "Micro-batches that one step's batch is split into.", at_least=1)
    seed: int = option(1337, "Seed of initialisation, data order and dropout.", at_least=0, at_most=2**32 - 1)
    eval_every: int = option(250, "Steps between evaluations; the last step is always evaluated.", at_least=1)
    eval_batches: int = option(20, "Random batches in the quick loss estimates.", at_least=1)
    save_every: int = option(
        500, "Steps between checkpoints; the last step and the best by validation are always saved.", at_least=1
    )
    save_minutes: float | None = option(
        None, "Minutes after which a checkpoint is saved as well; none goes by steps alone.", above=0
    )
    keep_checkpoints: int = option(
        3, "Newest checkpoints kept on disk, and the best by validation besides; others are deleted.", at_least=2
    )
    log_every: int = option(10, "Steps between lines of metrics.", at_least=1)
    sample_tokens: int = option(200, "Length of the sample shown at the end, in tokens; 0 shows none.", at_least=0)
    sample_every: int | None = option(
        None,
        "Steps between samples on the way, also in samples.jsonl; none shows the one at the end only.",
        at_least=1,
    )
    note_after_rises: int = option(
        3, "Evaluations in a row whose validation loss rises before the run says so.", at_least=1
    )
    wandb_project: str | None = option(
        None, "Weights & Biases project that gets the metrics too (the wandb extra); none sends nothing."
    )
    non_finite: Literal["stop", "skip"] = option(
        "stop",
        "What follows a step whose loss, gradient or update is not finite, which changes nothing either way: stop "
        "the run, or skip the step, count it and go on (the learning rate's schedule counts updates; ten in a row "
        "end the run).",
    )
    init_from: str | None = option(
        None,
        "A run (its last checkpoint), Hugging Face folder or llama2.c file whose parameters training starts from.",
    )

    @property
    def end(self) -> int:
        """The step at which training stops for now: `stop_after`, or the schedule's end."""
        return self.stop_after or self.steps

    def check(self) -> None:
        if self.batch_size % self.accumulate:
            raise RequestError(
                f"train.batch_size {self.batch_size} is not divisible by train.accumulate {self.accumulate}; "
                f"use batch size {-(-self.batch_size // self.accumulate) * self.accumulate} or another split"
            )
        if self.sample_every is not None and not self.sample_tokens:
            raise RequestError(
                f"train.sample_every {self.sample_every} means nothing with train.sample_tokens 0, which shows no "
                "sample; leave it out, or give the samples a length"
            )
        if self.wandb_project == "":
            raise RequestError("train.wandb_project is empty; name a project, or leave it out")
        if self.stop_after is not None and self.stop_after > self.steps:
            raise RequestError(
                f"train.stop_after {self.stop_after} is above train.steps {self.steps}; "
                "it pauses inside the schedule: lower it, or raise train.steps"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeshConfig(Section):
    """How devices are arranged."""

    section: ClassVar[str] = "mesh"

    data: int = option(0, "Devices that share the batch; 0 takes the largest number that divides it.", at_least=0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that defines a run; frozen and hashable.

    Example:
        >>> RunConfig(train=TrainConfig(steps=10)).train.steps
        10
    """

    model: ModelConfig = ModelConfig()
    execution: ExecutionConfig = ExecutionConfig()
    data: DataConfig = DataConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    train: TrainConfig = TrainConfig()
    mesh: MeshConfig = MeshConfig()

    def __post_init__(self) -> None:
        for name, cls in self.sections().items():
            if not isinstance(getattr(self, name), cls):
                raise RequestError(f"RunConfig.{name}: expected a {cls.__name__}, got {getattr(self, name)!r}")
        if self.data.mask_rate != DataConfig().mask_rate and self.model.family != "encoder":
            raise RequestError(
                f"data.mask_rate {self.data.mask_rate:g} means nothing with model.family {self.model.family}; leave "
                "it out, or set model.family to encoder"
            )
        if self.data.pack_documents and self.model.family != "decoder":
            raise RequestError(
                f"data.pack_documents means nothing with model.family {self.model.family}: only a decoder predicts "
                "what comes next; leave it out"
            )
        micro_batch = self.train.batch_size // self.train.accumulate
        if self.mesh.data and micro_batch % self.mesh.data:
            raise RequestError(
                f"mesh.data {self.mesh.data} does not divide the {micro_batch} sequences of a micro-batch; "
                "use a divisor, or 0 to let it be chosen"
            )

    @classmethod
    def preset(cls, name: str, settings: Mapping[str, Any] | None = None) -> Self:
        """Return a preset as a whole run, with flat settings laid over it.

        Args:
            name: One of those that `jaxgpt train --preset` takes.
            settings: `{"section.field": value}`.

        Raises:
            RequestError: an unknown preset or setting (with the nearest), or a value that is refused.

        Example:
            >>> run = RunConfig.preset("char-cpu", {"data.path": "input.txt", "train.steps": 200})
            >>> run.model.width, run.data.path, run.train.steps
            (128, 'input.txt', 200)
        """
        from .compose import apply_settings
        from .presets import load_preset

        return apply_settings(load_preset(name), settings or {}, "RunConfig.preset")

    @classmethod
    def sections(cls) -> dict[str, type[Section]]:
        """Return {section name: its class}, in order."""
        return {field.name: type(field.default) for field in dataclasses.fields(cls)}
