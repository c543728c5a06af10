"""The yardstick: attention, the feed-forward network and the block in float64 NumPy, sharing no code with the rest.

Attention goes block by block over its queries, so that no square of scores is ever held.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

_QUERIES = 256  # of one block


class ExactHead(NamedTuple):
    """One key head with the query heads that it serves: out and gradients, and the largest score."""

    out_GTD: np.ndarray
    d_q_GTD: np.ndarray
    d_k_SD: np.ndarray
    d_v_SD: np.ndarray
    largest_score: float


def exact_head(
    q_GTD: np.ndarray, k_SD: np.ndarray, v_SD: np.ndarray, d_out_GTD: np.ndarray, *, causal: bool
) -> ExactHead:
    """Return attention and the gradients of sum(d_out * out), all float64.

    Args:
        q_GTD: The query heads of one key head.
        k_SD, v_SD: Its keys and values.
        d_out_GTD: What flows back.
        causal: Whether query t sees only keys up to t.

    Example:
        >>> one = np.ones((1, 1, 2))
        >>> exact_head(one, one[0], 3 * one[0], one, causal=True).out_GTD.tolist()
        [[[3.0, 3.0]]]
    """
    out, d_q = np.zeros(q_GTD.shape), np.zeros(q_GTD.shape)
    d_k, d_v, largest = np.zeros(k_SD.shape), np.zeros(v_SD.shape), 0.0
    scale = 1 / math.sqrt(k_SD.shape[-1])
    for g in range(q_GTD.shape[0]):
        for start in range(0, q_GTD.shape[1], _QUERIES):
            at = np.arange(start, min(start + _QUERIES, q_GTD.shape[1]))
            q, d_out = q_GTD[g, at], d_out_GTD[g, at]
            weights, score = exact_weights(q, k_SD, at if causal else None, scale)
            seen = weights.shape[1]
            out[g, at] = weights @ v_SD[:seen]
            d_weights = d_out @ v_SD[:seen].T
            d_scores = weights * (d_weights - (weights * d_weights).sum(-1, keepdims=True)) * scale
            d_q[g, at] = d_scores @ k_SD[:seen]
            d_k[:seen] += d_scores.T @ q
            d_v[:seen] += weights.T @ d_out
            largest = max(largest, score)
    return ExactHead(out, d_q, d_k, d_v, largest)


def exact_weights(
    q_ND: np.ndarray, k_SD: np.ndarray, at_N: np.ndarray | None, scale: float
) -> tuple[np.ndarray, float]:
    """Return the softmax of the scores, and the largest score.

    Args:
        q_ND: N queries.
        k_SD: All keys.
        at_N: Positions of the queries, rising, where each sees no later key; None where each sees every key.
        scale: Factor of the scores.

    Returns:
        [N,M] and a number; M is the number of keys that some query sees.
    """
    seen = len(k_SD) if at_N is None else int(at_N[-1]) + 1
    scores = scale * (q_ND @ k_SD[:seen].T)
    largest = float(np.abs(scores).max())
    if at_N is not None:
        scores[np.arange(seen) > at_N[:, None]] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True), largest


def exact_ffn(x: np.ndarray, params: Mapping[str, Any]) -> np.ndarray:
    """Return gelu(x W1 + b1) W2 + b2, with the tanh formula of GELU.

    Args:
        x: [...,C]
        params: `up` and `down`, kernel and bias each.
    """
    pre = x @ params["up"]["kernel"] + params["up"]["bias"]
    hidden = 0.5 * pre * (1 + np.tanh(math.sqrt(2 / math.pi) * (pre + 0.044715 * pre**3)))
    return hidden @ params["down"]["kernel"] + params["down"]["bias"]


def exact_block(x_BTC: np.ndarray, params: Mapping[str, Any], rows_N: np.ndarray, *, causal: bool) -> np.ndarray:
    """Return what a pre-norm block makes of the positions `rows_N`, [B,N,C].

    Args:
        x_BTC: The residual stream.
        params: `ln1`, `attention`, `ln2` and `ffn`, as in the model's tree.
        rows_N: Positions, rising.
        causal: Whether a position sees none after it.
    """
    attention = params["attention"]
    normed_BTC = _layer_norm(x_BTC, params["ln1"])
    q, k, v = (
        np.einsum("btc,chd->bthd", part, attention[name]["kernel"]) + attention[name]["bias"]
        for name, part in (("q", normed_BTC[:, rows_N]), ("k", normed_BTC), ("v", normed_BTC))
    )
    group, scale = q.shape[2] // k.shape[2], 1 / math.sqrt(q.shape[3])
    heads = np.zeros(q.shape)
    for b in range(q.shape[0]):
        for h in range(q.shape[2]):
            keys, values = k[b, :, h // group], v[b, :, h // group]
            weights, _ = exact_weights(q[b, :, h], keys, rows_N if causal else None, scale)
            heads[b, :, h] = weights @ values[: weights.shape[1]]
    update = np.einsum("bthd,hdc->btc", heads, attention["out"]["kernel"]) + attention["out"]["bias"]
    residual = x_BTC[:, rows_N] + update
    return residual + exact_ffn(_layer_norm(residual, params["ln2"]), params["ffn"])


def _layer_norm(x: np.ndarray, params: Mapping[str, np.ndarray]) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * params["scale"] + params["bias"]
