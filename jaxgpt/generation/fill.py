"""What an encoder says of masked tokens, all of a text in one pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgpt.config import ExecutionConfig, ModelConfig, RequestError, WorkError
from jaxgpt.model.functional import apply
from jaxgpt.ops.keys import check_key

from .requests import check_ids, padded
from .sampling import NOT_FINITE, Sampling, Traced, choose
from .widths import width_of


def fill(
    config: ModelConfig,
    params: Mapping[str, Any],
    rows: Sequence[Sequence[int]],
    *,
    mask_id: int,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    drawable_ids: int | None = None,
    key: jax.Array,
    execution: ExecutionConfig | None = None,
) -> list[list[int]]:
    """Return the rows with every masked token replaced by what the encoder finds there.

    Each token is chosen on its own, as the masked-token objective trains it, and is never the mask token itself
    (Devlin et al. 2018, arXiv 1810.04805).

    Args:
        config: An architecture of family encoder.
        params: The tree that `init` gives.
        rows: Lists of ids, of any lengths up to the context.
        mask_id: The id of the mask token.
        temperature, top_k, top_p: See `Sampling`; temperature 0 takes the most likely token, above one is drawn.
        drawable_ids: Take the first N ids only; a tokenizer's vocab_size keeps to ids that it can decode. None means
            all.
        key: A PRNG key; what stands at one place of each row is drawn alike, whatever the row.
        execution: How to run.

    Raises:
        RequestError: another family, no rows, a row that is empty, too long or without a mask, ids outside the
            vocabulary, no id to take but the mask's, or something else than a key.
        WorkError: the logits are not finite.

    Example:
        >>> config = jaxgpt.ModelConfig.preset("minigpt", family="encoder")
        >>> params = jaxgpt.init(config, key=jax.random.key(0))
        >>> [[first, filled]] = fill(config, params, [[0, 4]], mask_id=4, key=jax.random.key(0))
        >>> first, filled != 4
        (0, True)
    """
    if config.family != "encoder":
        raise RequestError(f"fill: the model is of family {config.family}; only an encoder fills in masked tokens")
    key = check_key(key)
    check_ids(0, [mask_id], config.vocab_size, "mask_id")
    if len(rows) == 0:
        raise RequestError("fill: expected at least one list of ids, got none")
    for i, row in enumerate(rows):
        check_ids(i, row, config.vocab_size, "row")
        if len(row) > config.context_length:
            raise RequestError(f"fill: row {i} has {len(row)} tokens, above the context of {config.context_length}")
        if mask_id not in row:
            raise RequestError(f"fill: row {i} has no mask token (id {mask_id}), so there is nothing to fill in")
    token_ids_BT, is_real_BT = padded(rows, width_of(rows, config.context_length))
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, drawable_ids=drawable_ids)
    traced = _of_others(sampling, mask_id, config.vocab_size)
    filled_BT = np.asarray(
        _filled(config, execution or ExecutionConfig(), params, token_ids_BT, is_real_BT, mask_id, key, traced)
    )
    if (filled_BT[is_real_BT] == NOT_FINITE).any():
        raise WorkError(
            "the logits are not finite: the parameters are damaged or diverged; use an earlier checkpoint"
        )
    return [ids_T[: len(row)].tolist() for ids_T, row in zip(filled_BT, rows, strict=True)]


def _of_others(sampling: Sampling, mask_id: int, vocab_size: int) -> Traced:
    """Return the sampling for the logits of all ids but the mask's."""
    drawable = vocab_size if sampling.drawable_ids is None else sampling.drawable_ids
    sampling.traced(vocab_size)  # refuses more drawable ids than there are
    others = drawable - int(mask_id < drawable)
    if others == 0:
        raise RequestError(f"fill: the only id to take, {mask_id}, is the mask's; expected more drawable ids")
    return dataclasses.replace(sampling, drawable_ids=others).traced(vocab_size - 1)


@jax.jit
def _filled(
    config: ModelConfig,
    execution: ExecutionConfig,
    params: Mapping[str, Any],
    token_ids_BT: jax.Array,
    is_real_BT: jax.Array,
    mask_id: int,
    key: jax.Array,
    sampling: Traced,
) -> jax.Array:
    logits_BTV = apply(config, params, token_ids_BT, mask_BT=is_real_BT, execution=execution)
    others = jnp.arange(config.vocab_size - 1)
    others += others >= mask_id  # every id but the mask's
    keys_BT = jnp.broadcast_to(jax.random.split(key, token_ids_BT.shape[1]), token_ids_BT.shape)
    logits_NU = logits_BTV[:, :, others].reshape(-1, others.size)  # N: every position of every row
    chosen_N = choose(logits_NU, keys_BT.ravel(), sampling, jnp.zeros(logits_NU.shape, bool))
    chosen_BT = chosen_N.reshape(token_ids_BT.shape)
    ids_BT = jnp.where(chosen_BT == NOT_FINITE, NOT_FINITE, others[chosen_BT])
    return jnp.where(token_ids_BT == mask_id, ids_BT, token_ids_BT)
