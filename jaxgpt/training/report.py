"""What a run prints before its first step and after its last."""

from __future__ import annotations

import shlex

import jax

from jaxgpt.data.batches import count_evaluation_windows
from jaxgpt.generation.generate import generate
from jaxgpt.ops.keys import random_key
from jaxgpt.runs.directory import RunDirectory

from .console import Console, peak_memory
from .loop import Trainer, continue_command
from .material import Material
from .step import TrainState

_TEMPERATURE = 0.8  # of the sample


def describe(console: Console, material: Material, mesh: jax.sharding.Mesh) -> None:
    """Print the model, the text and the devices."""
    config, corpus = material.config, material.corpus
    length, micro_batches = config.model.context_length, config.train.accumulate
    windows, left_over = count_evaluation_windows(len(material.validation_ids_N), length)
    rows = config.train.batch_size // micro_batches // mesh.size
    console.model(config)
    console.say(f"data: {corpus.source}, {len(corpus.text):,} characters, {config.model.vocab_size} distinct")
    console.say(
        f"  training on the first {len(material.train_ids_N):,}, validating on the last "
        f"{len(material.validation_ids_N):,}: {windows:,} whole windows of {length}, {left_over} characters left over"
    )
    console.say(
        f"devices: {mesh.size} x {mesh.devices.flat[0].platform}, {rows} sequences on each; "
        f"micro-batches per step: {micro_batches}"
    )


def show_sample(console: Console, material: Material, state: TrainState) -> None:
    """Print a sample of the trained model, `train.sample_tokens` long."""
    config = material.config
    if not config.train.sample_tokens:
        return
    prompt = material.validation_ids_N[:1].tolist()  # any one token would do; this one the tokenizer knows
    result = generate(
        config.model,
        jax.device_put(state.params, jax.devices()[0]),  # once, not with each token
        [prompt],
        max_new_tokens=config.train.sample_tokens,
        temperature=_TEMPERATURE,
        key=random_key(config.train.seed),
        context_policy="crop",
        execution=config.execution,
    )
    console.say(f"sample (temperature {_TEMPERATURE}, {config.train.sample_tokens} tokens):")
    console.say(material.tokenizer.decode(result.ids[0]))


def footer(console: Console, trainer: Trainer, compile_seconds: float) -> None:
    """Print where the time and the memory went."""
    clock = trainer.clock
    training = clock.seconds("training")
    console.say(
        f"{trainer.tokens_per_second:,.0f} tokens/s over {trainer.steps_done} steps in {training:.1f} s "
        f"(waiting for data {clock.seconds('waiting for data') / training:.2%}), compiling {compile_seconds:.1f} s, "
        f"evaluating {clock.seconds('evaluating'):.1f} s, saving {clock.seconds('saving'):.1f} s, "
        f"peak memory {peak_memory()}"
    )


def next_commands(console: Console, run: RunDirectory, material: Material, state: TrainState) -> None:
    """Print where the run lies and the commands that go on from here."""
    step, steps = int(state.step), run.manifest.config.train.steps
    sample = shlex.join(["jaxgpt", "generate", str(run.path), f"--prompt={_known_word(material)}"])
    console.say(f"the run lies in {run.path}; sample from it with:\n  {sample}")
    if step < steps:
        console.say(f"paused at step {step} of {steps}; continue with:\n  {continue_command(run)}")
    else:
        longer = continue_command(run, "--train.steps", str(2 * steps))
        console.say(f"done; continue for longer with:\n  {longer}")


def _known_word(material: Material) -> str:
    """Return a word of the held-out text that leaves room in the context; without words, its first token."""
    ids_N, length = material.validation_ids_N, material.config.model.context_length
    words = material.tokenizer.decode(ids_N[:1000]).split()
    fitting = (word for word in words if len(material.tokenizer.encode(word)) < length)
    return next(fitting, material.tokenizer.decode(ids_N[:1]))
