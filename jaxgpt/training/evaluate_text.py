"""Evaluate a model on a text: nats per token, perplexity and bits per byte, each with its standard error."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxgpt.config import RequestError, RunConfig, WorkError
from jaxgpt.data.batches import evaluation_batches
from jaxgpt.data.examples import Examples
from jaxgpt.data.objectives import OBJECTIVES
from jaxgpt.data.source import Part, Source
from jaxgpt.data.tokenizer import Tokenizer
from jaxgpt.runs.manifest import check_vocabulary
from jaxgpt.sharding.mesh import data_mesh, place, replicated, split_rows

from .evaluate import make_evaluation_step, ratio, row_sums
from .exact_match import write_pairs

_TOKENS_PER_BATCH = 4096  # the logits of GPT-2 for as many take 0.8 GB
_LARGEST_EXPONENT = math.log(sys.float_info.max)


class Measured(NamedTuple):
    """A number and its standard error, which is NaN where there is a single window."""

    value: float
    standard_error: float


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What a model makes of a text.

    Attributes:
        description: What was read, in words.
        rows: Windows (or pairs) that were read.
        stride: Tokens between the beginnings of two windows; None for pairs.
        left_over: Tokens at the end that no whole window reaches.
        tokens: Tokens predicted, each once.
        bytes: UTF-8 bytes of the text that exactly those tokens stand for; None where the ids of a file do not tell.
        nats_per_token: Mean loss.
        perplexity: Its exponential; the standard error by the delta method, perplexity x that of the loss.
        bits_per_byte: The same loss over the bytes, in bits: it compares models whose tokens differ; None where the
            bytes are not known, or 0.
        exact_match: Share of the pairs whose target an encoder_decoder writes without an error, by the most likely
            token each time; None for other families.
    """

    description: str
    rows: int
    stride: int | None
    left_over: int
    tokens: int
    bytes: int | None
    nats_per_token: Measured
    perplexity: Measured
    bits_per_byte: Measured | None
    exact_match: Measured | None

    @property
    def unit(self) -> str:
        """What a row is."""
        return "pairs" if self.stride is None else "windows"


def evaluate_text(
    config: RunConfig,
    params: Mapping[str, Any],
    source: Source,
    tokenizer: Tokenizer,
    *,
    part: Part = "all",
    stride: int | None = None,
    batch_size: int | None = None,
) -> Evaluation:
    """Evaluate a model on a part of a text.

    Each standard error comes from the spread between windows (or pairs), taken as independent of each other.

    Args:
        config: The model; `execution` says how to run, `data` where the text is cut and how much an encoder guesses.
        params: The tree that `config.model` describes.
        source: The text, for an encoder_decoder lines of source TAB target; or ids, checked.
        tokenizer: The one that the model was trained with.
        part: The whole text, or a part of it as training cuts it.
        stride: Tokens between the beginnings of two windows, 1..context; None means the context, windows side by
            side. A smaller one gives each token at least context - stride others to look back on.
        batch_size: Rows computed at once; the result does not depend on it. None means what makes 4,096 tokens.

    Raises:
        RequestError: a text that is too short or that the tokenizer cannot say, a tokenizer with more ids than the
            model, a stride outside the context or for a family that reads no overlapping windows, or a batch size
            below 1.
        WorkError: the loss is not finite.

    Example:
        >>> from jaxgpt.data.tokenizer import ByteTokenizer
        >>> config = RunConfig(model=jaxgpt.ModelConfig(vocab_size=256, context_length=4, width=4, layers=1, heads=2))
        >>> params = jaxgpt.init(config.model, key=jax.random.key(0))
        >>> text = jaxgpt.data.Corpus.of("to be, or not to be", "a line of Hamlet")
        >>> result = evaluate_text(config, params, text, ByteTokenizer(), stride=2)
        >>> result.rows, result.tokens, result.left_over
        (8, 18, 0)
    """
    check_vocabulary(config.model.vocab_size, tokenizer.vocab_size)
    held = OBJECTIVES[config.model.family].hold(config, source, tokenizer, part, stride)
    rows = max(1, _TOKENS_PER_BATCH // config.model.context_length) if batch_size is None else batch_size
    if rows < 1:
        raise RequestError(f"the batch size should be at least 1, got {rows}; leave it out to let it be chosen")
    nats_N, tokens_N = _losses(config, params, held.examples, rows)
    counted_N = tokens_N > 0
    if not counted_N.any():
        raise RequestError(
            f"{source.source} has nothing to predict: each of its tokens ends a document; give another"
        )
    bytes_N = None if held.lengths is None else _byte_sums(held.examples, held.lengths, rows)[counted_N]
    has_bytes = bytes_N is not None and bytes_N.any()  # special tokens alone have none
    nats_N, tokens_N = nats_N[counted_N], tokens_N[counted_N]
    loss = Measured(*ratio(nats_N, tokens_N))
    perplexity = math.exp(loss.value) if loss.value < _LARGEST_EXPONENT else math.inf
    return Evaluation(
        description=held.examples.describe(),
        rows=len(held.examples.tiling),
        stride=held.stride,
        left_over=held.left_over,
        tokens=int(tokens_N.sum()),
        bytes=None if bytes_N is None else int(bytes_N.sum()),
        nats_per_token=loss,
        perplexity=Measured(perplexity, perplexity * loss.standard_error),
        bits_per_byte=Measured(*ratio(nats_N / math.log(2), bytes_N)) if has_bytes else None,
        exact_match=_exact_match(config, params, tokenizer, held.examples, rows),
    )


def _losses(
    config: RunConfig, params: Mapping[str, Any], examples: Examples, rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return loss sums and token counts of the examples, row by row, computed by all devices that divide the rows."""
    mesh = data_mesh(rows)
    batches = (place(batch, split_rows(mesh)) for batch in evaluation_batches(examples, batch_size=rows))
    step = jax.jit(make_evaluation_step(config.model, config.execution))
    with jax.set_mesh(mesh):  # attention divides its rows by it
        nats_N, tokens_N = row_sums(step, place(params, replicated(mesh)), batches)
    if not np.isfinite(nats_N).all():
        place_of_first = examples.place(int(examples.tiling[np.isfinite(nats_N).argmin()]))
        raise WorkError(
            f"the loss of {place_of_first} is not finite: the parameters are damaged or diverged; use an earlier "
            "checkpoint"
        )
    return nats_N, tokens_N


def _byte_sums(examples: Examples, lengths: Examples, rows: int) -> np.ndarray:
    """Return the bytes that the counted tokens of each row stand for, float64 [N]."""
    counted, bytes_of = (evaluation_batches(each, batch_size=rows) for each in (examples, lengths))
    sums = [
        np.einsum("bt,bt->b", length["target_ids_BT"], batch["weights_BT"], dtype=float)
        for batch, length in zip(counted, bytes_of, strict=True)
    ]
    return np.concatenate(sums)


def _exact_match(
    config: RunConfig, params: Mapping[str, Any], tokenizer: Tokenizer, examples: Examples, rows: int
) -> Measured | None:
    """Return the share of pairs that are written without an error; None for models that write none."""
    if config.model.family != "encoder_decoder":
        return None
    on_one_device = jax.device_put(params, jax.devices()[0])
    batches = evaluation_batches(examples, batch_size=rows)
    pairs = [pair for batch in batches for pair in write_pairs(config, on_one_device, tokenizer, batch)]
    right_N = np.array([pair.written == pair.target for pair in pairs], np.float64)
    return Measured(*ratio(right_N, np.ones_like(right_N)))
