"""The model's named intermediates: what each one is, in a sentence, and how it is cut into labelled rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from .lesson_weights import IDS_BT, PROMPTS, VOCABULARY
from .steps import Fact, Row, Step, make_rows, same, shape_of

Trace = Mapping[str, np.ndarray]
_USED_UNITS = 4  # of sixteen hidden units the lesson's weights use the first four


class Traced(NamedTuple):
    """How one intermediate is told; the letters of its axes decide how it is cut into rows."""

    name: str
    trace_name: str
    axes: str
    sentence: str
    facts: Callable[[Trace], tuple[Fact, ...]] = lambda trace: ()


def traced_step(entry: Traced, trace: Trace) -> Step:
    """Return the step that shows an intermediate of the trace."""
    array = trace[entry.trace_name]
    return array_step(entry, array, make_rows(entry.trace_name, cut(entry.axes, array)), entry.facts(trace))


class Told(Protocol):
    """What is said of an array: a heading, a sentence, the letters of its axes, and its name in the trace, if any."""

    name: str
    sentence: str
    axes: str
    trace_name: str | None


def array_step(told: Told, array: np.ndarray, rows: tuple[Row, ...], facts: tuple[Fact, ...]) -> Step:
    """Return the step of an array, its shape and its columns named by its axes."""
    shape, columns = shape_of(told.axes, array), column_names(told.axes, array)
    return Step(told.name, told.sentence, shape, told.trace_name, columns, rows, facts)


def column_names(axes: str, array: np.ndarray) -> tuple[str, ...]:
    """Return a heading per number of a row of `array`.

    Example:
        >>> column_names("BHTS", np.zeros((2, 2, 2, 2)))
        ('key 0', 'key 1')
    """
    if axes[-1] == "V":
        return VOCABULARY
    word = {"C": "feature", "F": "unit", "D": "d", "S": "key"}[axes[-1]]
    return tuple(f"{word} {i}" for i in range(_USED_UNITS if axes[-1] == "F" else array.shape[-1]))


def cut(axes: str, array: np.ndarray) -> dict[str, np.ndarray]:
    """Return {label: row of numbers}, by prompt, position and, where there is one, head.

    Example:
        >>> list(cut("BTC", np.zeros((2, 2, 4))))
        ['A you@0', 'A like@1', 'B we@0', 'B like@1']
    """
    values = array.swapaxes(1, 2) if axes == "BHTS" else array
    if axes[-1] == "F":
        values = values[..., :_USED_UNITS]
    return {_label(*index): values[index] for index in np.ndindex(values.shape[:-1])}


def _label(b: int, t: int, *head: int) -> str:
    place = f"{PROMPTS[b]} {VOCABULARY[IDS_BT[b, t]]}@{t}"
    return f"{place} head {head[0] + 1}" if head else place


def _like_is_alike(name: str) -> Callable[[Trace], tuple[Fact, ...]]:
    def facts(trace: Trace) -> tuple[Fact, ...]:
        return (same("like@1 is the same vector in both prompts", trace[name][0, 1], trace[name][1, 1]),)

    return facts


def _one_projection(trace: Trace) -> tuple[Fact, ...]:
    q_BTHD, k_BTHD, v_BTHD = (trace[f"blocks_0/attention/{name}"] for name in "qkv")
    return (same("k equals q", k_BTHD, q_BTHD), same("v equals q", v_BTHD, q_BTHD))


def _weights_are_shares(trace: Trace) -> tuple[Fact, ...]:
    weights_BHTS = trace["blocks_0/attention/weights"]
    sums_BHT = weights_BHTS.sum(axis=-1)
    return (
        same("position 0 gives the key after it a weight of 0", weights_BHTS[:, :, 0, 1], 0.0),
        same("the weights of each query sum to 1", sums_BHT, 1.0, within=1e-6),
    )


def _heads_side_by_side(trace: Trace) -> tuple[Fact, ...]:
    update_BTC = trace["blocks_0/attention/update"]
    heads_BTC = trace["blocks_0/attention/heads"].reshape(update_BTC.shape)
    return (
        same("with the identity for W_O the update is the heads side by side", update_BTC, heads_BTC, within=1e-6),
    )


def _sum_of(whole: str, stream: str, update: str) -> Callable[[Trace], tuple[Fact, ...]]:
    def facts(trace: Trace) -> tuple[Fact, ...]:
        return (same(f"{stream} + {update}", trace[whole], trace[stream] + trace[update]),)

    return facts


def _idle_units(name: str) -> Callable[[Trace], tuple[Fact, ...]]:
    def facts(trace: Trace) -> tuple[Fact, ...]:
        return (same("the other twelve units are 0", trace[name][..., _USED_UNITS:], 0.0),)

    return facts


_BLOCK = "blocks_0"
RESIDUAL_0 = Traced(
    "Residual stream",
    "residual_0",
    "BTC",
    "Token and position are added; from here on, the model only ever adds to this stream.",
    _like_is_alike("residual_0"),
)
BLOCK_AND_HEAD = (
    Traced(
        "First layer norm",
        f"{_BLOCK}/ln1",
        "BTC",
        "Each row is centred and scaled by its own mean and spread before attention reads it.",
        _like_is_alike(f"{_BLOCK}/ln1"),
    ),
    Traced(
        "Queries, keys and values",
        f"{_BLOCK}/attention/q",
        "BTHD",
        "Head 1 takes features 0 and 1, head 2 takes 2 and 3; one selection serves as q, k and v.",
        _one_projection,
    ),
    Traced(
        "Scores",
        f"{_BLOCK}/attention/scores",
        "BHTS",
        "Each query meets each key in a dot product, divided by sqrt(2), the root of the head size.",
    ),
    Traced(
        "Attention weights",
        f"{_BLOCK}/attention/weights",
        "BHTS",
        "Keys after the query are masked, and a softmax turns the remaining scores into shares.",
        _weights_are_shares,
    ),
    Traced(
        "Head outputs",
        f"{_BLOCK}/attention/heads",
        "BTHD",
        "Each head averages the visible values by those shares: at like@1, you or we comes in.",
    ),
    Traced(
        "Attention update",
        f"{_BLOCK}/attention/update",
        "BTC",
        "The two heads are joined and projected back to the width of the stream.",
        _heads_side_by_side,
    ),
    Traced(
        "Stream after attention",
        f"{_BLOCK}/residual_after_attention",
        "BTC",
        "The update is added to what was there, so like@1 now differs between the prompts.",
        _sum_of(f"{_BLOCK}/residual_after_attention", "residual_0", f"{_BLOCK}/attention/update"),
    ),
    Traced(
        "Second layer norm",
        f"{_BLOCK}/ln2",
        "BTC",
        "Rows are normalised again, now for the feed-forward network.",
    ),
    Traced(
        "Hidden units before GELU",
        f"{_BLOCK}/ffn/pre",
        "BTF",
        "W1 widens four features to sixteen units; these weights copy them into the first four.",
        _idle_units(f"{_BLOCK}/ffn/pre"),
    ),
    Traced(
        "Hidden units after GELU",
        f"{_BLOCK}/ffn/hidden",
        "BTF",
        "GELU lets large positive numbers pass and damps the rest, smoothly.",
        _idle_units(f"{_BLOCK}/ffn/hidden"),
    ),
    Traced(
        "Feed-forward update",
        f"{_BLOCK}/ffn/update",
        "BTC",
        "W2 brings sixteen units back to four features; these weights take a quarter of the first four.",
    ),
    Traced(
        "Stream after feed-forward",
        f"{_BLOCK}/residual_after_ffn",
        "BTC",
        "The second addition closes the block.",
        _sum_of(f"{_BLOCK}/residual_after_ffn", f"{_BLOCK}/residual_after_attention", f"{_BLOCK}/ffn/update"),
    ),
    Traced(
        "Final layer norm",
        "final_hidden",
        "BTC",
        "After the last block the stream is normalised once more, for the vocabulary head.",
    ),
    Traced(
        "Logits",
        "logits",
        "BTV",
        "Each word scores each row: a dot product with the word's own weights, plus its bias.",
    ),
)
