"""Pairs beside what an encoder_decoder writes for them, by the most likely token each time."""

from __future__ import annotations

from typing import NamedTuple

from jaxgpt.config import RunConfig
from jaxgpt.data.examples import Batch
from jaxgpt.data.tokenizer import Tokenizer
from jaxgpt.generation.targets import write_targets
from jaxgpt.model.parameters import Params
from jaxgpt.ops.keys import random_key


class WrittenPair(NamedTuple):
    """A source, what the model writes for it, and what belongs to it, as ids without special tokens."""

    source: list[int]
    written: list[int]
    target: list[int]


def write_pairs(config: RunConfig, params: Params, tokenizer: Tokenizer, batch: Batch) -> list[WrittenPair]:
    """Return the pairs of a batch with what the model writes; rows that count nothing are left out.

    Args:
        config: An encoder_decoder and how to run it.
        params: Its parameters.
        tokenizer: Says which ids are the start and the end token.
        batch: Rows as `Pairs` gives them.

    Raises:
        WorkError: the logits are not finite.
    """
    is_pair_B = batch["weights_BT"].any(axis=1)
    pairs = {name: rows[is_pair_B] for name, rows in batch.items()}
    sources = [row[mask].tolist() for row, mask in zip(pairs["source_ids_BS"], pairs["source_mask_BS"], strict=True)]
    targets = [row[w == 1][:-1].tolist() for row, w in zip(pairs["target_ids_BT"], pairs["weights_BT"], strict=True)]
    written = write_targets(
        config.model,
        params,
        tokenizer,
        sources,
        max_new_tokens=batch["token_ids_BT"].shape[1],  # the longest target and its end
        temperature=0,
        key=random_key(0),  # greedy: nothing is drawn
        execution=config.execution,
    )
    return [WrittenPair(*pair) for pair in zip(sources, written, targets, strict=True)]
