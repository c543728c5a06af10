"""The pure functions of the model: `apply` and `loss`, over a plain tree of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from jaxgpt.config import ExecutionConfig, ModelConfig, RequestError, nearest
from jaxgpt.ops.contracts import check_shape, check_token_ids
from jaxgpt.ops.cross_entropy import mean_over_tokens, token_cross_entropy
from jaxgpt.ops.taps import Override, Recorder, no_tap

from .cache import Cache
from .cache_checks import check_cache
from .inputs import Inputs, check_id_range, check_inputs, check_values
from .modules import Transformer
from .parameters import check_parameters

Batch = Mapping[str, jax.Array]
_TARGET_FIELDS = ("target_ids_BT", "weights_BT")
_REQUIRED_FIELDS = ("token_ids_BT", *_TARGET_FIELDS)
_BATCH_FIELDS = (*_REQUIRED_FIELDS, "mask_BT", "segment_ids_BT", "positions_BT", "source_ids_BS", "source_mask_BS")


def apply(
    config: ModelConfig,
    params: Mapping[str, Any],
    token_ids_BT: jax.Array,
    *,
    source_ids_BS: jax.Array | None = None,
    mask_BT: jax.Array | None = None,
    source_mask_BS: jax.Array | None = None,
    segment_ids_BT: jax.Array | None = None,
    positions_BT: jax.Array | None = None,
    cache: Cache | None = None,
    dropout_key: jax.Array | None = None,
    execution: ExecutionConfig | None = None,
    trace: bool = False,
    overrides: Mapping[str, Override] | None = None,
) -> Any:
    """Return the logits of every position: of the next token, or in an encoder of the token itself.

    Args:
        config: The architecture.
        params: The tree that `init` gives.
        token_ids_BT: Integers in 0..V-1, [B,T], T at most context_length.
        source_ids_BS: The source of an encoder_decoder, [B,S], S at most context_length.
        mask_BT: True (or 1) at real tokens, false at padding, on either side; no token sees padding, and positions
            count real tokens only, so a row's result is that of its real tokens alone. None means no padding.
        source_mask_BS: The same for the source.
        segment_ids_BT: Which document each token of a packed row belongs to, a run of equal numbers each; tokens see
            their own document only, and positions restart with it.
        positions_BT: Positions in 0..context_length-1 to use instead of those.
        cache: What `make_cache` or an earlier call returned: the tokens follow those that it holds, and see them.
            Padding may then only follow a row's real tokens, and is not kept. A source is passed once, with the first
            tokens. In a compiled function, where it cannot be refused, a row that does not fit, or
            has padding before a real token, gives NaN.
        dropout_key: A PRNG key to train with dropout; None means no dropout.
        execution: How to run; None means float32 with the automatic attention.
        trace: Also return every named intermediate. Attention then runs the `reference` implementation, since
            only that one has scores and weights to show; a named other one is refused.
        overrides: {name: array, or a function of the array} to replace intermediates, by the trace's names.

    Returns:
        logits_BTV, float32; if a cache was given or trace=True, a tuple: logits_BTV, the cache with the new tokens,
        {name: array}.

    Raises:
        RequestError: ids of the wrong rank, dtype or range, T above the context, a source that is missing or that the
            family does not read, tokens that a cache has no room for, parameters of another architecture, an unknown
            name among the overrides.

    Example:
        >>> config = ModelConfig.preset("minigpt")
        >>> params = jaxgpt.init(config, key=jax.random.key(0))
        >>> logits_BTV, seen = apply(config, params, np.array([[0, 1], [4, 1]]), trace=True)
        >>> logits_BTV.shape, seen["blocks_0/attention/weights"].shape
        ((2, 2, 5), (2, 2, 2, 2))
    """
    check_parameters(config, params)
    inputs = Inputs(token_ids_BT, mask_BT, segment_ids_BT, positions_BT, source_ids_BS, source_mask_BS, cache)
    execution = execution or ExecutionConfig()
    check_inputs(config, inputs)
    check_cache(config, execution, inputs)
    check_values(config, inputs)
    tap = Recorder(overrides) if trace or overrides else no_tap
    model = Transformer(config, execution)
    result = model.apply({"params": params}, **vars(inputs), dropout_key=dropout_key, tap=tap)
    if isinstance(tap, Recorder):
        tap.check_all_used()
        if trace:
            return (result, tap.seen) if cache is None else (*result, tap.seen)
    return result


def check_batch(batch: Batch) -> None:
    """Refuse a batch whose fields are missing, unknown, or of different shapes."""
    for name in batch:
        if name not in _BATCH_FIELDS:
            raise RequestError(f"batch has an unknown field '{name}'{nearest(name, _BATCH_FIELDS)}")
    missing = [name for name in _REQUIRED_FIELDS if name not in batch]
    if missing:
        raise RequestError(f"batch lacks {', '.join(missing)}; expected the fields {', '.join(_REQUIRED_FIELDS)}")
    for name in ("token_ids_BT", "target_ids_BT"):
        check_token_ids(name, batch[name])
    B, T = batch["token_ids_BT"].shape
    for name in _TARGET_FIELDS:
        check_shape(name, batch[name], B=B, T=T)


def inputs_of(batch: Batch) -> dict[str, jax.Array]:
    """Return the fields of a batch that are arguments of `apply`."""
    return {name: field for name, field in batch.items() if name not in _TARGET_FIELDS}


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
            position out of the mean), and where used `mask_BT`, `segment_ids_BT`, `positions_BT`, `source_ids_BS`,
            `source_mask_BS` as in `apply`.
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
    logits_BTV = apply(config, params, **inputs_of(batch), dropout_key=dropout_key, execution=execution)
    nats_BT = token_cross_entropy(logits_BTV, batch["target_ids_BT"])
    mean, total, count = mean_over_tokens(nats_BT, batch["weights_BT"])
    return mean, {"loss_sum": total, "token_count": count}
