"""The lesson's five words, two prompts and fixed weights, as a parameter tree of the `lesson` preset.

The weights are chosen so that one can follow them by hand; none of them was trained.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgpt.config import ModelConfig
from jaxgpt.model.functional import Batch
from jaxgpt.model.parameters import Params

VOCABULARY = ("you", "like", "AI", "study", "we")
PROMPTS = "AB"
IDS_BT = np.array([[0, 1], [4, 1]], np.int32)
TARGET_IDS_BT = np.array([[1, 2], [1, 0]], np.int32)

TOKEN_EMBEDDING_VC = (
    (0.20, -0.10, 0.70, 0.30),
    (0.60, 0.30, -0.20, 0.10),
    (-0.40, 0.80, 0.50, -0.30),
    (0.10, 0.20, 0.90, 0.40),
    (-0.70, 0.40, 0.30, 0.60),
)
POSITION_EMBEDDING_TC = ((0.05, 0.10, -0.05, 0.00), (-0.10, 0.00, 0.05, 0.10))
HEAD_VC = ((1, 0, 0, 0), (0, 1, 2, 2), (0, 0, 1, 1), (0, 3, -1, 0), (1, 2, 0, 0))
HEAD_BIAS_V = (-0.2, 0.1, 0.0, 0.0, 0.0)
FFN_GAIN = 0.25


def lesson_config() -> ModelConfig:
    """Return the lesson's architecture: one block, two heads of two features, five words."""
    return ModelConfig.preset("lesson")


def lesson_parameters() -> Params:
    """Return the lesson's weights.

    Head 1 reads features 0 and 1 and head 2 features 2 and 3, with q = k = v; the output projection is the
    identity. `up` copies the four features into the first four of sixteen hidden units, `down` takes those
    times 0.25. Every norm has scale 1 and bias 0.

    Example:
        >>> params = lesson_parameters()
        >>> params["blocks_0"]["attention"]["q"]["kernel"][:, 1].tolist()  # head 2, [C,D]
        [[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    """
    config = lesson_config()
    C, H, D, F = config.width, config.heads, config.head_width, config.hidden_width
    select = {"kernel": np.eye(C).reshape(C, H, D)}
    params = {
        "token_embedding": TOKEN_EMBEDDING_VC,
        "position_embedding": POSITION_EMBEDDING_TC,
        "blocks_0": {
            "ln1": _plain_norm(C),
            "attention": {"q": select, "k": select, "v": select, "out": {"kernel": np.eye(C).reshape(H, D, C)}},
            "ln2": _plain_norm(C),
            "ffn": {
                "up": {"kernel": np.eye(C, F), "bias": np.zeros(F)},
                "down": {"kernel": FFN_GAIN * np.eye(F, C), "bias": np.zeros(C)},
            },
        },
        "final_norm": _plain_norm(C),
        "lm_head": {"kernel": np.transpose(HEAD_VC), "bias": HEAD_BIAS_V},
    }
    return jax.tree.map(lambda values: jnp.asarray(np.asarray(values, np.float32)), params, is_leaf=_is_table)


def _is_table(node: Any) -> bool:
    return not isinstance(node, dict)


def _plain_norm(C: int) -> Params:
    return {"scale": np.ones(C), "bias": np.zeros(C)}


def lesson_batch() -> Batch:
    """Return both prompts with the next words the lesson trains on: like AI, and like you."""
    return {"token_ids_BT": IDS_BT, "target_ids_BT": TARGET_IDS_BT, "weights_BT": np.ones(IDS_BT.shape, np.float32)}


def words(ids: np.ndarray) -> str:
    """Return the words of a row of ids.

    Example:
        >>> words(np.array([4, 1]))
        'we like'
    """
    return " ".join(VOCABULARY[i] for i in np.asarray(ids))
