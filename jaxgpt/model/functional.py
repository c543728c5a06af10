"""The pure functions of the model: `apply` and `loss`, over a plain tree of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxgpt.config import ExecutionConfig, ModelConfig, RequestError, nearest
from jaxgpt.ops.contracts import check_shape, check_token_ids
from jaxgpt.ops.cross_entropy import mean_over_tokens, token_cross_entropy
from jaxgpt.ops.taps import Override, Recorder, no_tap

from .modules import Transformer
from .parameters import check_parameters

Batch = Mapping[str, jax.Array]
_BATCH_FIELDS = ("token_ids_BT", "target_ids_BT", "weights_BT")


def check_id_range(name: str, ids: Any, vocab_size: int) -> None:
    """Refuse ids outside the vocabulary, where their values are known (not inside a traced function).

    A compiled gather cannot raise; there an id out of range gives NaN.
    """
    if isinstance(ids, jax.core.Tracer):
        return
    values = np.asarray(ids)
    bad = (values < 0) | (values >= vocab_size)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise RequestError(
            f"{name}{list(where)} is {int(values[where])}, outside the vocabulary 0..{vocab_size - 1}; "
            "encode the text with this model's own tokenizer"
        )


def apply(
    config: ModelConfig,
    params: Mapping[str, Any],
    token_ids_BT: jax.Array,
    *,
    dropout_key: jax.Array | None = None,
    execution: ExecutionConfig | None = None,
    trace: bool = False,
    overrides: Mapping[str, Override] | None = None,
) -> Any:
    """Return the next-token logits of every position.

    Args:
        config: The architecture.
        params: The tree that `init` gives.
        token_ids_BT: Integers in 0..V-1, [B,T], T at most context_length.
        dropout_key: A PRNG key to train with dropout; None means no dropout.
        execution: How to run; None means float32 with the automatic attention.
        trace: Also return every named intermediate. Attention then runs the `reference` implementation, since
            only that one has scores and weights to show; a named other one is refused.
        overrides: {name: array, or a function of the array} to replace intermediates, by the trace's names.

    Returns:
        logits_BTV, float32; with trace=True the pair (logits_BTV, {name: array}).

    Raises:
        RequestError: ids of the wrong rank, dtype or range, T above the context, parameters of another
            architecture, an unknown name among the overrides.

    Example:
        >>> config = ModelConfig.preset("minigpt")
        >>> params = jaxgpt.init(config, key=jax.random.key(0))
        >>> logits_BTV, seen = apply(config, params, np.array([[0, 1], [4, 1]]), trace=True)
        >>> logits_BTV.shape, seen["blocks_0/attention/weights"].shape
        ((2, 2, 5), (2, 2, 2, 2))
    """
    check_parameters(config, params)
    check_token_ids("token_ids_BT", token_ids_BT)
    tap = Recorder(overrides) if trace or overrides else no_tap
    check_id_range("token_ids_BT", token_ids_BT, config.vocab_size)
    model = Transformer(config, execution or ExecutionConfig())
    logits_BTV = model.apply({"params": params}, token_ids_BT, dropout_key=dropout_key, tap=tap)
    if isinstance(tap, Recorder):
        tap.check_all_used()
        if trace:
            return logits_BTV, tap.seen
    return logits_BTV


def check_batch(batch: Batch) -> None:
    """Refuse a batch whose fields are missing, unknown, or of different shapes."""
    for name in batch:
        if name not in _BATCH_FIELDS:
            raise RequestError(f"batch has an unknown field '{name}'{nearest(name, _BATCH_FIELDS)}")
    missing = [name for name in _BATCH_FIELDS if name not in batch]
    if missing:
        raise RequestError(f"batch lacks {', '.join(missing)}; expected the fields {', '.join(_BATCH_FIELDS)}")
    for name in ("token_ids_BT", "target_ids_BT"):
        check_token_ids(name, batch[name])
    B, T = batch["token_ids_BT"].shape
    for name in _BATCH_FIELDS[1:]:
        check_shape(name, batch[name], B=B, T=T)


def loss(
    config: ModelConfig,
    params: Mapping[str, Any],
    batch: Batch,
    *,
    dropout_key: jax.Array | None = None,
    execution: ExecutionConfig | None = None,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Return the mean cross-entropy over the counted tokens, in nats, and its two halves.

    Args:
        config: The architecture.
        params: The tree that `init` gives.
        batch: `token_ids_BT`, `target_ids_BT` (the next token of each position), `weights_BT` (0 leaves a
            position out of the mean).
        dropout_key, execution: As in `apply`.

    Returns:
        The mean, and {"loss_sum", "token_count"}, whose sums over micro-batches or devices divide to the same
        mean. A batch that counts no token gives 0.

    Example:
        >>> config = ModelConfig.preset("minigpt")
        >>> params = jaxgpt.init(config, key=jax.random.key(0))
        >>> ids = np.array([[0, 1], [4, 1]])
        >>> targets = np.array([[1, 2], [1, 0]])
        >>> batch = {"token_ids_BT": ids, "target_ids_BT": targets, "weights_BT": np.ones((2, 2))}
        >>> value, metrics = loss(config, params, batch)
        >>> float(metrics["token_count"])
        4.0
    """
    check_batch(batch)
    check_id_range("target_ids_BT", batch["target_ids_BT"], config.vocab_size)
    logits_BTV = apply(config, params, batch["token_ids_BT"], dropout_key=dropout_key, execution=execution)
    nats_BT = token_cross_entropy(logits_BTV, batch["target_ids_BT"])
    mean, total, count = mean_over_tokens(nats_BT, batch["weights_BT"])
    return mean, {"loss_sum": total, "token_count": count}
