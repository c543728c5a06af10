"""The two-prompt example: from ids to probabilities, through the model itself."""

from __future__ import annotations

import numpy as np

import jaxgpt
from jaxgpt.model.parameters import Params
from jaxgpt.ops.attention import masked_softmax
from jaxgpt.ops.embedding import embed

from .lesson_weights import IDS_BT, VOCABULARY, lesson_config
from .steps import Fact, Step, make_rows, same, shape_of
from .traced import BLOCK_AND_HEAD, RESIDUAL_0, Trace, column_names, cut, traced_step


def trace_lesson(params: Params) -> Trace:
    """Return every named intermediate of both prompts, from `jaxgpt.apply`.

    Example:
        >>> from jaxgpt.explain.lesson_weights import lesson_parameters
        >>> trace_lesson(lesson_parameters())["logits"].shape
        (2, 2, 5)
    """
    return _trace(params, IDS_BT)


def _trace(params: Params, ids_BT: np.ndarray) -> Trace:
    _, trace = jaxgpt.apply(lesson_config(), params, ids_BT, trace=True)
    return {name: np.asarray(array) for name, array in trace.items()}


def example_steps(params: Params, trace: Trace) -> tuple[Step, ...]:
    """Return the steps from the two prompts to their probabilities.

    Args:
        params: The lesson's parameters, for the tables that lie before the first named intermediate.
        trace: What `trace_lesson` gives for them.
    """
    return (
        _token_step(params),
        _position_step(params),
        traced_step(RESIDUAL_0, trace),
        _same_token_step(params),
        *(traced_step(entry, trace) for entry in BLOCK_AND_HEAD),
        _probability_step(trace["logits"]),
    )


def _token_step(params: Params) -> Step:
    tokens_BTC = np.asarray(embed(IDS_BT, params["token_embedding"]))
    return Step(
        "Token embeddings",
        "Each id picks its row of a table: prompt A, 'you like', is ids 0 1; B, 'we like', is 4 1.",
        shape_of("BTC", tokens_BTC),
        None,
        column_names("BTC", tokens_BTC),
        make_rows("token_embedding", cut("BTC", tokens_BTC)),
    )


def _position_step(params: Params) -> Step:
    table_TC = np.asarray(params["position_embedding"])
    return Step(
        "Position embeddings",
        "Each place in the sequence has a row of its own, the same for every prompt.",
        shape_of("TC", table_TC),
        None,
        column_names("TC", table_TC),
        make_rows("position_embedding", {f"position {t}": row_C for t, row_C in enumerate(table_TC)}),
    )


def _same_token_step(params: Params) -> Step:
    residual_TC = _trace(params, np.full_like(IDS_BT, VOCABULARY.index("like")))["residual_0"][0]
    return Step(
        "One word in two places",
        "The prompt 'like like' picks the same token row twice; the position makes the sums differ.",
        shape_of("TC", residual_TC),
        "residual_0",
        column_names("TC", residual_TC),
        make_rows("same_token", {f"like@{t}": row_C for t, row_C in enumerate(residual_TC)}),
    )


def _probability_step(logits_BTV: np.ndarray) -> Step:
    probabilities_BTV = np.asarray(masked_softmax(logits_BTV, None))
    best_B = probabilities_BTV[:, -1].argmax(axis=-1)
    return Step(
        "Probabilities",
        "A softmax over the vocabulary turns each row of logits into a forecast of the next word.",
        shape_of("BTV", probabilities_BTV),
        None,
        column_names("BTV", probabilities_BTV),
        make_rows("probabilities", cut("BTV", probabilities_BTV)),
        (
            same("each row sums to 1", probabilities_BTV.sum(axis=-1), 1.0, within=1e-6),
            Fact("after 'like' both prompts rank 'study' first", [VOCABULARY[i] for i in best_B] == ["study"] * 2),
        ),
    )
