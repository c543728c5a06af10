"""What each family of models is trained on: the table from a family to its text, special tokens and examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from jaxgpt.config import RequestError, RunConfig

from .corpus import Corpus, Sliceable, manual_corpus, split_by_position
from .examples import Examples, Windows
from .masked import MaskedWindows
from .pairs import EncodedPair, Pairs, date_pairs, encode_pairs, parse_pairs
from .strided import StridedWindows
from .tokenizer import Tokenizer
from .tokenizer.special import ordinary_ids, special_id


class Splits(NamedTuple):
    """The examples to train on and to validate on, and how large the two splits are, in tokens or in pairs."""

    train: Examples
    validation: Examples
    train_size: int
    validation_size: int
    unit: str


Part = Literal["all", "train", "val"]
_PART_WORDS = {"all": "the text", "train": "the training split", "val": "the validation split"}


class Held(NamedTuple):
    """A part of a text to evaluate a model on.

    Attributes:
        examples: What the model reads and predicts.
        lengths: The same examples with the number of UTF-8 bytes of each token in the place of its id.
        left_over: Tokens at the end that no whole window reaches.
        stride: Tokens between the beginnings of two windows; None for pairs.
    """

    examples: Examples
    lengths: Examples
    left_over: int
    stride: int | None


class Objective(NamedTuple):
    """How a family learns.

    Attributes:
        roles: The special tokens that it needs.
        built_in: Makes the corpus that is used where none is given.
        words: Returns the text whose characters a character tokenizer should know.
        split: Cuts a corpus by position and encodes the parts.
        hold: Lays out a part of a corpus for an evaluation, with a stride where one is asked for.
    """

    roles: tuple[str, ...]
    built_in: Callable[[], Corpus]
    words: Callable[[str], str]
    split: Callable[[RunConfig, Corpus, Tokenizer], Splits]
    hold: Callable[[RunConfig, Corpus, Tokenizer, Part, int | None], Held]


def take_part(whole: Sliceable, validation_fraction: float, part: Part) -> Sliceable:
    """Return a part of a text or of a list of pairs, cut as for training.

    >>> take_part("to be", 0.4, "val"), take_part("to be", 0.4, "all")
    ('be', 'to be')
    """
    train, validation = split_by_position(whole, validation_fraction)
    return {"all": whole, "train": train, "val": validation}[part]


def _next_token(config: RunConfig, corpus: Corpus, tokenizer: Tokenizer) -> Splits:
    ids = [tokenizer.encode(text) for text in split_by_position(corpus.text, config.data.validation_fraction)]
    train, validation = (
        Windows(ids_N, context_length=config.model.context_length, name=_PART_WORDS[part])
        for ids_N, part in zip(ids, ("train", "val"), strict=True)
    )
    return Splits(train, validation, len(ids[0]), len(ids[1]), "tokens")


def _hold_strided(config: RunConfig, corpus: Corpus, tokenizer: Tokenizer, part: Part, stride: int | None) -> Held:
    text = take_part(corpus.text, config.data.validation_fraction, part)
    ids_N, length = tokenizer.encode(text), config.model.context_length
    _check_one_window(len(ids_N), 2, part)
    length = min(length, len(ids_N) - 1)  # a text below one context is read in one shorter window
    stride = length if stride is None else stride
    windows, lengths = (
        StridedWindows(row_N, context_length=length, stride=stride) for row_N in (ids_N, tokenizer.byte_counts(text))
    )
    return Held(windows, lengths, windows.left_over, stride)


def _masked_windows(config: RunConfig, ids_N: np.ndarray, tokenizer: Tokenizer, name: str) -> MaskedWindows:
    return MaskedWindows(
        ids_N,
        context_length=config.model.context_length,
        mask_id=special_id(tokenizer, "mask"),
        ordinary_ids_U=ordinary_ids(tokenizer),
        rate=config.data.mask_rate,
        name=name,
    )


def _masked_token(config: RunConfig, corpus: Corpus, tokenizer: Tokenizer) -> Splits:
    ids = [tokenizer.encode(text) for text in split_by_position(corpus.text, config.data.validation_fraction)]
    train, validation = (
        _masked_windows(config, ids_N, tokenizer, _PART_WORDS[part])
        for ids_N, part in zip(ids, ("train", "val"), strict=True)
    )
    return Splits(train, validation, len(ids[0]), len(ids[1]), "tokens")


def _hold_masked(config: RunConfig, corpus: Corpus, tokenizer: Tokenizer, part: Part, stride: int | None) -> Held:
    _refuse_stride(stride, config.model.family, "its windows lie side by side")
    text = take_part(corpus.text, config.data.validation_fraction, part)
    ids_N, length = tokenizer.encode(text), config.model.context_length
    _check_one_window(len(ids_N), length, part)
    windows, lengths = (
        _masked_windows(config, row_N, tokenizer, _PART_WORDS[part]) for row_N in (ids_N, tokenizer.byte_counts(text))
    )
    return Held(windows, lengths, len(ids_N) % length, length)


def _encoded_pairs(config: RunConfig, corpus: Corpus, tokenizer: Tokenizer) -> list[EncodedPair]:
    pairs = parse_pairs(corpus.text, corpus.source)
    return encode_pairs(pairs, tokenizer, context_length=config.model.context_length, name=corpus.source)


def _padded_pairs(part: Sequence[EncodedPair], whole: Sequence[EncodedPair], *, bos_id: int, eos_id: int) -> Pairs:
    """Return `part` as examples whose rows are as long as those of `whole`."""
    return Pairs(
        part,
        bos_id=bos_id,
        eos_id=eos_id,
        source_length=max(len(pair.source) for pair in whole),
        target_length=max(len(pair.target) for pair in whole) + 1,
    )


def _pairs(config: RunConfig, corpus: Corpus, tokenizer: Tokenizer) -> Splits:
    encoded = _encoded_pairs(config, corpus, tokenizer)
    parts = split_by_position(encoded, config.data.validation_fraction)
    for part, name in zip(parts, ("training", "validation"), strict=True):
        if not part:
            raise RequestError(
                f"{corpus.source} has {len(encoded)} pairs, of which data.validation_fraction "
                f"{config.data.validation_fraction:g} leaves none for {name}; give more pairs, or another fraction"
            )
    bos_id, eos_id = special_id(tokenizer, "bos"), special_id(tokenizer, "eos")
    train, validation = (_padded_pairs(part, encoded, bos_id=bos_id, eos_id=eos_id) for part in parts)
    return Splits(train, validation, train.count, validation.count, "pairs")


def _hold_pairs(config: RunConfig, corpus: Corpus, tokenizer: Tokenizer, part: Part, stride: int | None) -> Held:
    _refuse_stride(stride, config.model.family, "it reads each pair whole")
    encoded = _encoded_pairs(config, corpus, tokenizer)
    held = take_part(encoded, config.data.validation_fraction, part)
    if not held:
        raise RequestError(
            f"{_PART_WORDS[part]} of {corpus.source} has no pair; give more pairs, or another fraction"
        )
    texts = take_part(parse_pairs(corpus.text, corpus.source), config.data.validation_fraction, part)
    lengths = [
        EncodedPair(pair.source, tokenizer.byte_counts(text.target)) for pair, text in zip(held, texts, strict=True)
    ]
    bos_id, eos_id = special_id(tokenizer, "bos"), special_id(tokenizer, "eos")
    return Held(
        _padded_pairs(held, held, bos_id=bos_id, eos_id=eos_id),
        _padded_pairs(lengths, held, bos_id=0, eos_id=0),  # neither the start nor the end token has a byte
        0,
        None,
    )


def _refuse_stride(stride: int | None, family: str, reason: str) -> None:
    if stride is not None:
        raise RequestError(f"a stride means nothing for a model of family {family}: {reason}; leave it out")


def _check_one_window(tokens: int, needed: int, part: Part) -> None:
    if tokens < needed:
        raise RequestError(
            f"{_PART_WORDS[part]} has {tokens} tokens, but one window of this model takes {needed}; give more text, "
            "or a larger part of it"
        )


OBJECTIVES = {
    "decoder": Objective((), manual_corpus, lambda text: text, _next_token, _hold_strided),
    "encoder": Objective(("mask",), manual_corpus, lambda text: text, _masked_token, _hold_masked),
    "encoder_decoder": Objective(
        ("bos", "eos"), date_pairs, lambda text: text.replace("\t", "").replace("\n", ""), _pairs, _hold_pairs
    ),
}
