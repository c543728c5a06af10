"""What an encoder_decoder writes for its sources: from the start token to the end token, both left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax

from jaxgpt.config import ExecutionConfig, ModelConfig
from jaxgpt.data.tokenizer import Tokenizer
from jaxgpt.data.tokenizer.special import special_id

from .generate import generate


def write_targets(
    config: ModelConfig,
    params: Mapping[str, Any],
    tokenizer: Tokenizer,
    sources: Sequence[Sequence[int]],
    *,
    beginnings: Sequence[Sequence[int]] | None = None,
    max_new_tokens: int | None = None,
    key: jax.Array,
    execution: ExecutionConfig | None = None,
    **sampling: Any,
) -> list[list[int]]:
    """Return the ids of each source's target.

    Args:
        config, params: An encoder_decoder.
        tokenizer: Says which ids are the start and the end token.
        sources: Lists of ids.
        beginnings: How each target begins; None leaves it to the model.
        max_new_tokens: Tokens to write, at most; None means what the context holds.
        key, execution, sampling: As in `generate`.

    Raises:
        RequestError: what `generate` refuses, or a tokenizer without a start and an end token.
        WorkError: the logits are not finite.
    """
    bos_id, eos_id = special_id(tokenizer, "bos"), special_id(tokenizer, "eos")
    prompts = [[bos_id, *beginning] for beginning in beginnings or [()] * len(sources)]
    if max_new_tokens is None:
        max_new_tokens = config.context_length - max(map(len, prompts), default=0)
    result = generate(
        config,
        params,
        prompts,
        sources=sources,
        max_new_tokens=max_new_tokens,
        stop_ids={eos_id},
        drawable_ids=tokenizer.vocab_size,
        key=key,
        execution=execution,
        **sampling,
    )
    return [ids[1:-1] if ids[-1] == eos_id else ids[1:] for ids in result.ids]
