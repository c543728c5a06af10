"""The course's exercises on the model's outside: loss, one descent step, generation, and counting parameters."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import jaxgpt
from jaxgpt.config import ModelConfig
from jaxgpt.model.parameters import Params
from jaxgpt.ops.cross_entropy import token_cross_entropy
from jaxgpt.ops.keys import random_key

from .lesson_weights import IDS_BT, TARGET_IDS_BT, VOCABULARY, lesson_batch, lesson_config, words
from .steps import Fact, Step, exercise, make_rows, same, shape_of

_LOSS_IN_FLOAT64 = 1.9176324751929954
_LEARNING_RATE = 0.1


def training_exercises(params: Params) -> tuple[Step, ...]:
    """Return the exercises on loss, descent, generation and GPT-2's size.

    Args:
        params: The lesson's parameters.
    """
    return (_loss_shapes(params), _descent(params), _generation(params), _cropped(params), _gpt2_count())


def _loss_shapes(params: Params) -> Step:
    logits_BTV = np.asarray(jaxgpt.apply(lesson_config(), params, IDS_BT))
    logits_NV, targets_N = logits_BTV.reshape(-1, len(VOCABULARY)), TARGET_IDS_BT.reshape(-1)
    mean, _ = jaxgpt.loss(lesson_config(), params, lesson_batch())
    nats_BT = np.asarray(token_cross_entropy(logits_BTV, TARGET_IDS_BT))
    columns = [f"{VOCABULARY[i]} -> {VOCABULARY[j]}" for i, j in zip(IDS_BT.flat, TARGET_IDS_BT.flat, strict=True)]
    return exercise(
        "The training loss",
        "Each position is a task, guess the next word; the loss is the mean of -ln p(target), in nats.",
        f"{shape_of('NV', logits_NV)} against {shape_of('N', targets_N)}, N = B x T",
        (*columns, "mean"),
        "loss",
        {"-ln p(target)": np.append(nats_BT, mean)},
        (
            _shape_fact("logits reshaped", logits_NV, (4, 5)),
            _shape_fact("targets reshaped", targets_N, (4,)),
            _shape_fact("the loss", mean, ()),
            same(f"the loss is {_LOSS_IN_FLOAT64:.6f}, as in float64", mean, _LOSS_IN_FLOAT64, within=1e-6),
        ),
    )


def _shape_fact(name: str, array: jax.Array | np.ndarray, expected: tuple[int, ...]) -> Fact:
    shape = ",".join(map(str, np.shape(array)))
    return Fact(f"shape of {name}: [{shape}]", np.shape(array) == expected)


def _descent(params: Params) -> Step:
    def loss(parameters: Params) -> jax.Array:
        return jaxgpt.loss(lesson_config(), parameters, lesson_batch())[0]

    gradient = jax.jit(jax.grad(loss))(params)
    moved = jax.tree.map(_move, params, gradient)
    before, after = float(loss(params)), float(loss(moved))
    count = sum(leaf.size for leaf in jax.tree.leaves(gradient))
    return exercise(
        "One step downhill",
        f"Every parameter moves against its slope: theta - {_LEARNING_RATE} x gradient of the loss.",
        f"a tree of {count} numbers",
        ("loss before", "loss after", "gradient norm"),
        "descent",
        {"one step": [before, after, _length(gradient)]},
        (Fact(f"the loss falls, by {before - after:.6f} nats", after < before),),
    )


def _move(theta: jax.Array, slope: jax.Array) -> jax.Array:
    return jnp.asarray(np.asarray(theta) - _LEARNING_RATE * np.asarray(slope))


def _length(tree: Params) -> float:
    return float(np.sqrt(sum(np.square(np.asarray(leaf)).sum() for leaf in jax.tree.leaves(tree))))


def _one_word_longer(params: Params) -> np.ndarray:
    """Return both prompts with the best next id behind each, [B,T+1]."""
    result = jaxgpt.generate(
        lesson_config(),
        params,
        IDS_BT.tolist(),
        max_new_tokens=1,
        temperature=0,
        key=random_key(0),
        context_policy="crop",  # the prompts fill the context
    )
    return np.array(result.ids)


def _last_logits(params: Params, ids_BT: np.ndarray) -> np.ndarray:
    """Return the logits of the last position, [B,V]."""
    return np.asarray(jaxgpt.apply(lesson_config(), params, ids_BT))[:, -1]


def _generation(params: Params) -> Step:
    longer_BT = _one_word_longer(params)
    last_BV, next_B1 = _last_logits(params, IDS_BT), longer_BT[:, -1:]
    return exercise(
        "One word is generated",
        "Only the last position's logits count; the best id becomes a new column of the sequence.",
        f"{shape_of('BT', IDS_BT)} -> {shape_of('BT', longer_BT)}",
        ("id 0", "id 1", "new id"),
        "generation",
        {words(ids): ids for ids in longer_BT},
        (
            _shape_fact("the last position's logits", last_BV, (2, 5)),
            _shape_fact("the next ids", next_B1, (2, 1)),
            same("they score highest there", next_B1[:, 0], last_BV.argmax(axis=-1)),
            _shape_fact("the longer sequence", longer_BT, (2, 3)),
        ),
    )


def _cropped(params: Params) -> Step:
    limit = lesson_config().context_length
    longer_BT = _one_word_longer(params)
    window_BT = longer_BT[:, -limit:]
    last_BV = _last_logits(params, window_BT)
    return Step(
        "The window moves on",
        f"The model reads {limit} ids, so the next pass sees the last {limit} and has lost the first word.",
        f"{shape_of('BT', longer_BT)} -> {shape_of('BT', window_BT)}",
        "logits",
        VOCABULARY,
        make_rows(
            "cropped", {f"{name} {words(ids)}": row for name, ids, row in zip("AB", window_BT, last_BV, strict=True)}
        ),
        (
            _shape_fact("the window", window_BT, (2, 2)),
            same("both windows read 'like study', so their forecasts are equal", last_BV[0], last_BV[1]),
        ),
    )


def _gpt2_count() -> Step:
    count = jaxgpt.count_parameters(ModelConfig.preset("gpt2"))
    return exercise(
        "The 124 million of GPT-2",
        "The same design at width 768, with 12 blocks: its parameters, counted from the shapes.",
        f"{len(count.buckets)} buckets",
        ("parameters",),
        "gpt2_parameters",
        {**{b.name: [b.total] for b in count.buckets}, "sum": [count.total]},
        (Fact("the buckets sum to the total", sum(bucket.total for bucket in count.buckets) == count.total),),
    )
