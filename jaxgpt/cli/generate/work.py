"""The work of `jaxgpt generate`: batch after batch, each answer shown as soon as it is complete."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

import jax

from jaxgpt.generation.fill import fill
from jaxgpt.generation.generate import GenerationStream
from jaxgpt.generation.text import TextPieces, broken_id, place_of_stop
from jaxgpt.model.serving import prepare
from jaxgpt.ops.keys import random_key

from .asked import Asked
from .clock import Clock
from .families import Task, masked_rows, sampling_options
from .shown import Answer, Document, Lines, Shown, Texts

if TYPE_CHECKING:
    from jaxgpt.data.tokenizer import Tokenizer
    from jaxgpt.interop.opening import Opened

_PATIENCE_OF_ONE, _PATIENCE_OF_MANY = 0.05, 0.5  # seconds between looks at what has come


def way_of_showing(options: argparse.Namespace, step: int, pieces: TextPieces | None = None) -> Shown:
    """Return how answers are shown; as text, the only one in `pieces`."""
    if options.json:
        return Document(step)
    return Lines() if options.jsonl else Texts(pieces)


def continue_all(options: argparse.Namespace, task: Task, model: Opened, tokenizer: Tokenizer, clock: Clock) -> None:
    """Continue every prompt of a task, and show the texts."""
    rows = len(task.prompts) * task.request.n
    pieces = None
    if rows == 1 and not (options.json or options.jsonl):
        pieces = TextPieces(task.text, broken_id=broken_id(tokenizer), stop_strings=task.request.stop_strings)
    with way_of_showing(options, model.step, pieces) as shown:
        shown.more(task.prompts[0])
        params = jax.block_until_ready(prepare(model.config, model.params))
        for batch in _batches(len(task.prompts), options.batch_size):
            stream = GenerationStream(
                model.config,
                params,
                [task.prompts[i] for i in batch],
                task.request,
                sources=task.sources and [task.sources[i] for i in batch],
                key=random_key(options.seed),
                patience=_PATIENCE_OF_ONE if rows == 1 else _PATIENCE_OF_MANY,
                execution=model.execution,
            )
            _show_batch(task, batch, stream, shown, clock)


def _batches(count: int, size: int) -> Iterator[list[int]]:
    """Yield the indices of each batch; the last one repeats its last index, or it would be compiled for."""
    for start in range(0, count, size):
        yield [min(i, count - 1) for i in range(start, start + min(size, count))]


def _show_batch(task: Task, batch: list[int], stream: GenerationStream, shown: Shown, clock: Clock) -> None:
    n, ids, nats = task.request.n, stream.rows.ids, stream.rows.logprobs
    asked = set(batch)
    read = sum(len(task.prompts[i]) + (len(task.sources[i]) if task.sources else 0) for i in asked)
    for piece in clock.watched(stream, read=read, rows=len(asked) * n):
        if piece.stop_reason is None:
            shown.more(ids[piece.row])
        else:
            row = batch[0] * n + piece.row
            answer = _answer(task, row, ids[piece.row], piece.stop_reason)
            shown.complete(row, answer._replace(logprobs=nats[piece.row] if task.request.logprobs else None))


def _answer(task: Task, row: int, ids: list[int], reason: str) -> Answer:
    prompt, sample = divmod(row, task.request.n)
    asked = task.asked[prompt]
    return Answer(
        asked.source,
        asked.prompt,
        _text(task, task.prompts[prompt], ids, reason),
        ids,
        reason,
        sample,
    )


def _text(task: Task, prompt: list[int], ids: list[int], reason: str) -> str:
    """Return the text of a row, without the stop string that it ended with."""
    text = task.text(ids)
    if reason != "stop_string":
        return text
    return text[: place_of_stop(text, task.text(prompt), task.request.stop_strings)]


def fill_all(
    options: argparse.Namespace, asked: list[Asked], model: Opened, tokenizer: Tokenizer, clock: Clock
) -> None:
    """Fill in the masks of every prompt, and show the texts."""
    rows, mask_id = masked_rows(asked, model.config, tokenizer)
    with way_of_showing(options, model.step) as shown:
        for batch in _batches(len(rows), options.batch_size):
            with clock.within(clock.reading):
                filled = fill(
                    model.config,
                    model.params,
                    [rows[i] for i in batch],
                    mask_id=mask_id,
                    key=random_key(options.seed),
                    execution=model.execution,
                    **sampling_options(options, tokenizer),
                )
            for i, ids in dict(zip(batch, filled, strict=True)).items():
                clock.reading.tokens += len(ids)
                shown.complete(i, Answer(None, asked[i].prompt, tokenizer.decode(ids), ids))
