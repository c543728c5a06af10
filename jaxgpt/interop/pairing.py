"""Rotary pairs: features 2i and 2i + 1 (interleaved) or i and i + D/2 (half) are the same model in another order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxgpt.config import ModelConfig
from jaxgpt.runs.trees import named_leaves, nested

_ROTATED = re.compile(r"blocks_\d+/attention/(q|k|q_norm|k_norm)/")


def halved(config: ModelConfig, params: Mapping[str, Any]) -> tuple[ModelConfig, dict[str, Any]]:
    """Return the same model with `rope_pairing` "half", which is what Hugging Face's files mean.

    Scores are sums over features, so moving the features of queries and keys alike changes none of them.

    Example:
        >>> config = ModelConfig(position="rope", rope_pairing="interleaved", width=6, heads=1)
        >>> params = {"blocks_0": {"attention": {"q": {"bias": np.arange(6)}, "v": {"bias": np.arange(6)}}}}
        >>> config, params = halved(config, params)
        >>> config.rope_pairing, params["blocks_0"]["attention"]["q"]["bias"].tolist()
        ('half', [0, 2, 4, 1, 3, 5])
        >>> params["blocks_0"]["attention"]["v"]["bias"].tolist()
        [0, 1, 2, 3, 4, 5]
    """
    if config.rope_pairing == "half":
        return config, dict(params)
    order = np.concatenate([np.arange(0, config.head_width, 2), np.arange(1, config.head_width, 2)])
    leaves = {path: leaf[..., order] if _ROTATED.match(path) else leaf for path, leaf in named_leaves(params).items()}
    return config.replace(rope_pairing="half"), nested(leaves)
