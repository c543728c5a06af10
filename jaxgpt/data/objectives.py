"""What each family of models is trained on: the table from a family to its text, special tokens and examples."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from jaxgpt.config import RequestError, RunConfig

from .corpus import Corpus, manual_corpus, split_by_position, take_part
from .examples import Examples, Windows, count_evaluation_windows
from .masked import MaskedWindows
from .mixture import Mixture
from .pairs import EncodedPair, Pair, Pairs, date_pairs, encode_pairs, parse_pairs
from .source import Part, Source
from .sources import Sources
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


_PART_WORDS = {"all": "the text", "train": "the training split", "val": "the validation split"}


class Held(NamedTuple):
    """A part of a text to evaluate a model on.

    Attributes:
        examples: What the model reads and predicts.
        lengths: The same examples with the number of UTF-8 bytes of each token in the place of its id; None where
            the ids of the source do not tell.
        left_over: Tokens at the end that no whole window reaches.
        stride: Tokens between the beginnings of two windows; None for pairs.
    """

    examples: Examples
    lengths: Examples | None
    left_over: int
    stride: int | None


class Objective(NamedTuple):
    """How a family learns.

    Attributes:
        roles: The special tokens that it needs.
        built_in: Makes the corpus that is used where none is given.
        words: Returns the text whose characters a character tokenizer should know.
        split: Cuts the sources of a run by position and encodes the parts.
        hold: Lays out a part of a source for an evaluation, with a stride where one is asked for.
    """

    roles: tuple[str, ...]
    built_in: Callable[[], Corpus]
    words: Callable[[str], str]
    split: Callable[[RunConfig, Sources, Tokenizer], Splits]
    hold: Callable[[RunConfig, Source, Tokenizer, Part, int | None], Held]


Lay = Callable[[Source, np.ndarray, str], Examples]  # ids of a part, with the words that begin a message


def _window_splits(config: RunConfig, sources: Sources, tokenizer: Tokenizer, lay: Lay) -> Splits:
    """Cut each source by position, or take all of it where another is for validation, and lay out its parts."""
    fraction = config.data.validation_fraction
    alone = sources.validation
    training: list[Examples] = []
    validation: list[Examples] = []
    sizes = [0, 0]
    for source in sources.training:
        of = f" of {source.source}" if len(sources.training) > 1 else ""
        ids_N = source.ids(tokenizer, "train" if alone is None else "all", fraction)
        training.append(lay(source, ids_N, _PART_WORDS["train"] + of))
        sizes[0] += len(ids_N)
        if alone is None:
            ids_N = source.ids(tokenizer, "val", fraction)
            validation.append(lay(source, ids_N, _PART_WORDS["val"] + of))
            sizes[1] += len(ids_N)
    if alone is not None:
        ids_N = alone.ids(tokenizer, "all", fraction)
        validation.append(lay(alone, ids_N, f"data.validation_path {alone.source}"))
        sizes[1] = len(ids_N)
    return Splits(_mixed(training, sources), _mixed(validation, sources), *sizes, "tokens")


def _mixed(parts: Sequence[Examples], sources: Sources) -> Examples:
    """Return the examples of all sources as one split."""
    if len(parts) == 1:
        return parts[0]
    return Mixture(parts, weights=sources.weights, names=_short_names([each.source for each in sources.training]))


def _short_names(paths: Sequence[str]) -> list[str]:
    """Return the files' names without their folders, or the whole paths where two would be one."""
    names = [os.path.basename(path) for path in paths]
    return names if len(set(names)) == len(names) else list(paths)


def _end_id(config: RunConfig, source: Source) -> int | None:
    """Return the id at which documents are kept apart, None where they are not."""
    if not config.data.pack_documents:
        return None
    if source.end_id is None:
        raise RequestError(
            f"data.pack_documents: no end token stands between documents in {source.source}, so nothing says where "
            "one begins; prepare a token file whose documents end in one, or leave data.pack_documents out"
        )
    return source.end_id


_PIECE = 1 << 16  # ids that are looked at together


def _check_predicts(ids_N: np.ndarray, length: int, end_id: int, name: str) -> None:
    """Refuse ids whose whole windows are end tokens only; mapped ones are read up to the first other."""
    covered = count_evaluation_windows(len(ids_N), length, name)[0] * length
    pieces = (ids_N[first : min(first + _PIECE, covered)] for first in range(0, covered, _PIECE))
    if not any((piece_N != end_id).any() for piece_N in pieces):
        raise RequestError(
            f"data.pack_documents: {name} has nothing to predict, each of the {covered:,} tokens of its whole "
            "windows ends a document; give more text"
        )


def _next_token(config: RunConfig, sources: Sources, tokenizer: Tokenizer) -> Splits:
    def lay(source: Source, ids_N: np.ndarray, name: str) -> Windows:
        length, end_id = config.model.context_length, _end_id(config, source)
        if end_id is not None:
            _check_predicts(ids_N, length, end_id, name)
        return Windows(ids_N, context_length=length, name=name, end_id=end_id)

    return _window_splits(config, sources, tokenizer, lay)


def _hold_strided(config: RunConfig, source: Source, tokenizer: Tokenizer, part: Part, stride: int | None) -> Held:
    fraction, length = config.data.validation_fraction, config.model.context_length
    ids_N = source.ids(tokenizer, part, fraction)
    _check_one_window(len(ids_N), 2, part)
    length = min(length, len(ids_N) - 1)  # a text below one context is read in one shorter window
    stride = length if stride is None else stride
    end_id = source.end_id if config.data.pack_documents else None  # without end tokens it is one document
    windows = StridedWindows(ids_N, context_length=length, stride=stride, end_id=end_id)
    bytes_N = source.byte_counts(tokenizer, part, fraction)
    lengths = None if bytes_N is None else StridedWindows(bytes_N, context_length=length, stride=stride)
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


def _masked_token(config: RunConfig, sources: Sources, tokenizer: Tokenizer) -> Splits:
    def lay(source: Source, ids_N: np.ndarray, name: str) -> MaskedWindows:
        return _masked_windows(config, ids_N, tokenizer, name)

    return _window_splits(config, sources, tokenizer, lay)


def _hold_masked(config: RunConfig, source: Source, tokenizer: Tokenizer, part: Part, stride: int | None) -> Held:
    _refuse_stride(stride, config.model.family, "its windows lie side by side")
    fraction, length = config.data.validation_fraction, config.model.context_length
    ids_N = source.ids(tokenizer, part, fraction)
    _check_one_window(len(ids_N), length, part)
    windows = _masked_windows(config, ids_N, tokenizer, _PART_WORDS[part])
    bytes_N = source.byte_counts(tokenizer, part, fraction)
    lengths = None if bytes_N is None else _masked_windows(config, bytes_N, tokenizer, _PART_WORDS[part])
    return Held(windows, lengths, len(ids_N) % length, length)


def _texts_of_pairs(source: Source) -> list[Pair]:
    if not isinstance(source, Corpus):
        raise RequestError(
            f"{source.source} holds ids, but an encoder_decoder trains on lines of source TAB target; give a text"
        )
    return parse_pairs(source.text, source.source)


def _encoded_pairs(config: RunConfig, source: Source, tokenizer: Tokenizer) -> list[EncodedPair]:
    pairs = _texts_of_pairs(source)
    return encode_pairs(pairs, tokenizer, context_length=config.model.context_length, name=source.source)


def _padded_pairs(part: Sequence[EncodedPair], whole: Sequence[EncodedPair], *, bos_id: int, eos_id: int) -> Pairs:
    """Return `part` as examples whose rows are as long as those of `whole`."""
    return Pairs(
        part,
        bos_id=bos_id,
        eos_id=eos_id,
        source_length=max(len(pair.source) for pair in whole),
        target_length=max(len(pair.target) for pair in whole) + 1,
    )


def _pairs(config: RunConfig, sources: Sources, tokenizer: Tokenizer) -> Splits:
    encoded = [_encoded_pairs(config, source, tokenizer) for source in sources.all]
    whole = [pair for pairs in encoded for pair in pairs]  # all rows share one shape, whichever file they are from
    if sources.validation is None:
        cut = [_cut_pairs(config, *each) for each in zip(sources.all, encoded, strict=True)]
        training, validation = [parts[0] for parts in cut], [parts[1] for parts in cut]
    else:
        training, validation = encoded[:-1], encoded[-1:]
    bos_id, eos_id = special_id(tokenizer, "bos"), special_id(tokenizer, "eos")

    def lay(parts: list[list[EncodedPair]]) -> Examples:
        return _mixed([_padded_pairs(part, whole, bos_id=bos_id, eos_id=eos_id) for part in parts], sources)

    train, held_out = lay(training), lay(validation)
    return Splits(train, held_out, train.count, held_out.count, "pairs")


def _cut_pairs(config: RunConfig, source: Source, encoded: list[EncodedPair]) -> tuple[list[EncodedPair], ...]:
    parts = split_by_position(encoded, config.data.validation_fraction)
    for part, name in zip(parts, ("training", "validation"), strict=True):
        if not part:
            raise RequestError(
                f"{source.source} has {len(encoded)} pairs, of which data.validation_fraction "
                f"{config.data.validation_fraction:g} leaves none for {name}; give more pairs, or another fraction"
            )
    return parts


def _hold_pairs(config: RunConfig, source: Source, tokenizer: Tokenizer, part: Part, stride: int | None) -> Held:
    _refuse_stride(stride, config.model.family, "it reads each pair whole")
    encoded = _encoded_pairs(config, source, tokenizer)
    held = take_part(encoded, config.data.validation_fraction, part)
    if not held:
        raise RequestError(
            f"{_PART_WORDS[part]} of {source.source} has no pair; give more pairs, or another fraction"
        )
    texts = take_part(_texts_of_pairs(source), config.data.validation_fraction, part)
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
