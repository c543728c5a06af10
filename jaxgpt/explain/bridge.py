"""From one bare attention head to the whole model: one component is added at a time.

Every stage is written with the functions of `jaxgpt.ops` and the lesson's weights, and looked at where the two
prompts have the same word in the same place: like@1. The last stage is the model, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import numpy as np

from jaxgpt.model.parameters import Params
from jaxgpt.ops.attention import attention, multi_head_attention
from jaxgpt.ops.embedding import embed, vocabulary_logits
from jaxgpt.ops.feedforward import feed_forward
from jaxgpt.ops.linear import linear
from jaxgpt.ops.norm import layer_norm

from .lesson_weights import IDS_BT
from .steps import Fact, Step, apart, exercise, largest_difference, make_rows, same
from .traced import Trace, array_step

_LIKE = 1  # the position both prompts share


def _tokens(params: Params) -> jax.Array:
    return embed(IDS_BT, params["token_embedding"])


def _stream(params: Params) -> jax.Array:
    return _tokens(params) + params["position_embedding"]


def _first_head(params: Params, x_BTC: jax.Array) -> jax.Array:
    weights = params["blocks_0"]["attention"]
    q_BTHD, k_BTHD, v_BTHD = (linear(x_BTC, {"kernel": weights[name]["kernel"][:, :1]}) for name in "qkv")
    return attention(q_BTHD, k_BTHD, v_BTHD, implementation="reference")[:, :, 0]


def _both_heads(params: Params, x_BTC: jax.Array) -> jax.Array:
    return multi_head_attention(x_BTC, params["blocks_0"]["attention"], implementation="reference")


def _norm(params: Params, x_BTC: jax.Array) -> jax.Array:
    return layer_norm(x_BTC, params["scale"], params["bias"])


def bare_lookup(params: Params) -> jax.Array:
    """Token vectors and nothing else, [B,T,C]."""
    return _tokens(params)


def bare_head(params: Params) -> jax.Array:
    """One causal head over the token vectors, [B,T,D]."""
    return _first_head(params, _tokens(params))


def with_positions(params: Params) -> jax.Array:
    """The same head over token + position vectors, [B,T,D]."""
    return _first_head(params, _stream(params))


def with_two_heads(params: Params) -> jax.Array:
    """Both heads, joined by the output projection, [B,T,C]."""
    return _both_heads(params, _stream(params))


def with_residual(params: Params) -> jax.Array:
    """The stream plus attention's update, [B,T,C]."""
    return _stream(params) + _both_heads(params, _stream(params))


def with_norm(params: Params) -> jax.Array:
    """As before, but attention reads the normalised stream, [B,T,C]."""
    normed_BTC = _norm(params["blocks_0"]["ln1"], _stream(params))
    return _stream(params) + _both_heads(params, normed_BTC)


def with_feed_forward(params: Params) -> jax.Array:
    """The whole block: a normalised feed-forward update is added too, [B,T,C]."""
    residual_BTC, block = with_norm(params), params["blocks_0"]
    return residual_BTC + feed_forward(_norm(block["ln2"], residual_BTC), block["ffn"])


def with_final_norm(params: Params) -> jax.Array:
    """The block's output, normalised for the head, [B,T,C]."""
    return _norm(params["final_norm"], with_feed_forward(params))


def with_vocabulary_head(params: Params) -> jax.Array:
    """Logits, [B,T,V]: the whole model."""
    return vocabulary_logits(with_final_norm(params), params["lm_head"], None)


class Stage(NamedTuple):
    """A stage of the bridge; `trace_name` is the intermediate of the model that it has become, if any."""

    name: str
    sentence: str
    compute: Callable[[Params], jax.Array]
    axes: str
    trace_name: str | None = None


STAGES = (
    Stage("Lookup alone", "Without attention like@1 cannot know its neighbour.", bare_lookup, "BTC"),
    Stage(
        "+ one bare head",
        "A causal head reads features 0 and 1: like@1 now depends on the word before it.",
        bare_head,
        "BTD",
    ),
    Stage(
        "+ positions", "The head reads token + position, so the place of a word counts too.", with_positions, "BTD"
    ),
    Stage(
        "+ second head and output projection",
        "A second head reads features 2 and 3, and W_O joins both to the stream's full width.",
        with_two_heads,
        "BTC",
    ),
    Stage("+ residual", "Attention's result is added to the stream instead of replacing it.", with_residual, "BTC"),
    Stage(
        "+ norm",
        "Attention reads a normalised copy; larger, comparable scores make its shares more decided.",
        with_norm,
        "BTC",
        "blocks_0/residual_after_attention",
    ),
    Stage(
        "+ feed-forward",
        "A second update works within each position, on its own norm: the block is complete.",
        with_feed_forward,
        "BTC",
        "blocks_0/residual_after_ffn",
    ),
    Stage("+ final norm", "The stream is normalised once more.", with_final_norm, "BTC", "final_hidden"),
    Stage(
        "+ vocabulary head",
        "Every word scores the row; this is the whole model.",
        with_vocabulary_head,
        "BTV",
        "logits",
    ),
)


def bridge_steps(params: Params, trace: Trace) -> tuple[Step, ...]:
    """Return the stages at a glance, then one step per stage: both prompts at like@1, and what sets them apart.

    Args:
        params: The lesson's parameters.
        trace: The model's intermediates, which the later stages must equal exactly.
    """
    results = {stage: np.asarray(stage.compute(params)) for stage in STAGES}
    return (_overview(results), *(_stage_step(stage, array, trace) for stage, array in results.items()))


def _overview(results: Mapping[Stage, np.ndarray]) -> Step:
    return exercise(
        "All stages at a glance",
        "How far apart the prompts are at like@1, one word after you or we, as each component joins.",
        f"{len(results)} stages",
        ("width", "largest A - B"),
        "stages",
        {stage.name: _apart_at_like(array) for stage, array in results.items()},
    )


def _apart_at_like(array: np.ndarray) -> tuple[int, float]:
    return array.shape[-1], largest_difference(*array[:, _LIKE])


def _stage_step(stage: Stage, array: np.ndarray, trace: Trace) -> Step:
    a, b = array[:, _LIKE]
    rows = make_rows("bridge", {"A like@1": a, "B like@1": b, "A - B": a - b})
    return array_step(stage, array, rows, _stage_facts(stage, array, trace))


def _stage_facts(stage: Stage, array: np.ndarray, trace: Trace) -> tuple[Fact, ...]:
    a, b = array[:, _LIKE]
    if stage.compute is bare_lookup:
        return (same("both prompts have the same like@1", a, b),)
    facts = (apart("the prompts differ at like@1", a, b),)
    if stage.trace_name is None:
        return facts
    return (*facts, same(f"equals the model's {stage.trace_name}", array, trace[stage.trace_name]))
