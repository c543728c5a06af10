"""What each family of models is trained on: the table from a family to its text, special tokens and examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jaxgpt.config import RequestError, RunConfig

from .corpus import Corpus, manual_corpus, split_by_position
from .examples import Examples, Windows
from .masked import MaskedWindows
from .pairs import Pairs, date_pairs, encode_pairs, parse_pairs
from .tokenizer import Tokenizer
from .tokenizer.special import ordinary_ids


class Splits(NamedTuple):
    """The examples to train on and to validate on, and how large the two splits are, in tokens or in pairs."""

    train: Examples
    validation: Examples
    train_size: int
    validation_size: int
    unit: str


class Objective(NamedTuple):
    """How a family learns.

    Attributes:
        roles: The special tokens that it needs.
        built_in: Makes the corpus that is used where none is given.
        words: Returns the text whose characters a character tokenizer should know.
        split: Cuts a corpus by position and encodes the parts.
    """

    roles: tuple[str, ...]
    built_in: Callable[[], Corpus]
    words: Callable[[str], str]
    split: Callable[[RunConfig, Corpus, Tokenizer], Splits]


def _next_token(config: RunConfig, corpus: Corpus, tokenizer: Tokenizer) -> Splits:
    ids = [tokenizer.encode(text) for text in split_by_position(corpus.text, config.data.validation_fraction)]
    names = ("the training split", "the validation split")
    length = config.model.context_length
    train, validation = (
        Windows(ids_N, context_length=length, name=name) for ids_N, name in zip(ids, names, strict=True)
    )
    return Splits(train, validation, len(ids[0]), len(ids[1]), "tokens")


def _masked_token(config: RunConfig, corpus: Corpus, tokenizer: Tokenizer) -> Splits:
    ids = [tokenizer.encode(text) for text in split_by_position(corpus.text, config.data.validation_fraction)]
    train, validation = (
        MaskedWindows(
            ids_N,
            context_length=config.model.context_length,
            mask_id=tokenizer.special_ids["mask"],
            ordinary_ids_U=ordinary_ids(tokenizer),
            rate=config.data.mask_rate,
            name=name,
        )
        for ids_N, name in zip(ids, ("the training split", "the validation split"), strict=True)
    )
    return Splits(train, validation, len(ids[0]), len(ids[1]), "tokens")


def _pairs(config: RunConfig, corpus: Corpus, tokenizer: Tokenizer) -> Splits:
    length = config.model.context_length
    encoded = encode_pairs(
        parse_pairs(corpus.text, corpus.source), tokenizer, context_length=length, name=corpus.source
    )
    parts = split_by_position(encoded, config.data.validation_fraction)
    for part, name in zip(parts, ("training", "validation"), strict=True):
        if not part:
            raise RequestError(
                f"{corpus.source} has {len(encoded)} pairs, of which data.validation_fraction "
                f"{config.data.validation_fraction:g} leaves none for {name}; give more pairs, or another fraction"
            )
    special = tokenizer.special_ids
    train, validation = (
        Pairs(
            part,
            bos_id=special["bos"],
            eos_id=special["eos"],
            source_length=max(len(pair.source) for pair in encoded),
            target_length=max(len(pair.target) for pair in encoded) + 1,
        )
        for part in parts
    )
    return Splits(train, validation, train.count, validation.count, "pairs")


OBJECTIVES = {
    "decoder": Objective((), manual_corpus, lambda text: text, _next_token),
    "encoder": Objective(("mask",), manual_corpus, lambda text: text, _masked_token),
    "encoder_decoder": Objective(
        ("bos", "eos"), date_pairs, lambda text: text.replace("\t", "").replace("\n", ""), _pairs
    ),
}
