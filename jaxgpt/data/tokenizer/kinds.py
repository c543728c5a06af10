"""The table of kinds, and the tokenizer that a name, a path or a record stands for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxgpt.config import RequestError, blamed_on, nearest

from .byte_values import ByteTokenizer
from .characters import CharacterTokenizer
from .files import READABLE, tokenizer_from_path
from .find_gpt2 import find_gpt2_merges
from .gpt2 import FINGERPRINT, Gpt2Tokenizer
from .protocol import Tokenizer
from .special import ExtendedTokenizer, with_roles
from .tokenizer_json import JsonTokenizer

CLASSES = {
    cls.kind: cls for cls in (CharacterTokenizer, ByteTokenizer, Gpt2Tokenizer, JsonTokenizer, ExtendedTokenizer)
}

# What may be named without a file.
NAMED: dict[str, Callable[[], Tokenizer]] = {
    ByteTokenizer.kind: ByteTokenizer,
    Gpt2Tokenizer.kind: lambda: Gpt2Tokenizer(find_gpt2_merges()),
}


def tokenizer_from_json(record: Mapping[str, Any]) -> Tokenizer:
    """Rebuild whichever tokenizer wrote `record`, by its field "kind".

    Raises:
        RequestError: not a mapping, an unknown kind (with the nearest), or a record that its class refuses.

    Example:
        >>> tokenizer_from_json({"kind": "characters", "characters": ["a", "b"]}).vocab_size
        2
    """
    if not isinstance(record, Mapping):
        raise RequestError(
            f"tokenizer: expected an object with the field 'kind', got {type(record).__name__}; "
            "save the tokenizer again"
        )
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in CLASSES:
        close = nearest(kind, CLASSES) if isinstance(kind, str) else ""
        raise RequestError(f"unknown tokenizer kind {kind!r}{close} (kinds: {', '.join(CLASSES)})")
    return CLASSES[kind].from_json(record)


def make_tokenizer(name: str, text: str | None, *, option: str = "data.tokenizer") -> Tokenizer:
    """Return the tokenizer that an option names: a kind, or a path that holds one.

    Args:
        name: `characters` (those of `text`), `bytes`, `gpt2`, or the path of a file or folder.
        text: the text it is for; None where there is none yet, and then `characters` is no kind.
        option: the option that names it, for the messages.

    Raises:
        RequestError: neither a kind (with the nearest) nor a path, a path without a tokenizer, or an empty text.

    Example:
        >>> make_tokenizer("characters", "to be").vocab_size, make_tokenizer("bytes", "to be").vocab_size
        (5, 256)
    """
    kinds = NAMED if text is None else {CharacterTokenizer.kind: lambda: CharacterTokenizer.train(text)} | NAMED
    with blamed_on(option):
        if name in kinds:
            return kinds[name]()
        if not os.path.exists(name):
            raise RequestError(
                f"{name!r} is neither a kind nor a file{nearest(name, kinds)} (kinds: {', '.join(kinds)}; or the "
                f"path of {READABLE}, or of a folder that holds one)"
            )
        tokenizer = tokenizer_from_path(Path(name))
        if tokenizer is None:
            raise RequestError(f"the folder {name} holds no tokenizer; it needs {READABLE}")
        return tokenizer


def choose_tokenizer(
    name: str | None,
    text: str | None,
    *,
    roles: Sequence[str] = (),
    trained: Tokenizer | None = None,
    owner: str | None = None,
    option: str = "data.tokenizer",
) -> Tokenizer:
    """Return the tokenizer of a run: the one its parameters were trained with, or the one that is named.

    Args:
        name: what the option names, None where it names none.
        text: the run's text; None where nothing is trained.
        roles: the special tokens that the run needs; a tokenizer made for it is given those that it lacks.
        trained: the tokenizer that the parameters were trained with, None where they came without.
        owner: what the parameters belong to, in words; None for fresh ones, which take `characters` by default.
        option: the option that names it, for the messages.

    Raises:
        RequestError: `name` names one that differs from `trained`, or nothing says which tokenizer the parameters
            were trained with.

    Example:
        >>> choose_tokenizer(None, "to be").vocab_size
        5
    """
    if trained is not None:
        known = name == Gpt2Tokenizer.kind and trained.fingerprint() == FINGERPRINT  # no need of its file
        if name is not None and not known:
            found = with_roles(make_tokenizer(name, text, option=option), roles)
            check_same_tokenizer(trained, found, owner, option=option)
        return trained
    if name is None and owner is not None:
        raise RequestError(f"{owner} holds no tokenizer; name the one it was trained with in {option}")
    return with_roles(make_tokenizer(name or CharacterTokenizer.kind, text, option=option), roles)


def check_same_tokenizer(
    expected: Tokenizer, found: Tokenizer, owner: str | None, *, option: str = "data.tokenizer"
) -> None:
    """Refuse a tokenizer that does not write a text in the ids that a model has learned.

    Args:
        expected: the tokenizer that the model was trained with.
        found: the one that the option names.
        owner: what `expected` belongs to, in words.
        option: the option that names it, for the messages.

    Raises:
        RequestError: an id differs, which the message names, there are more ids or fewer, or their record differs
            otherwise: the same ids, found in a text by other rules or with other special tokens.

    Example:
        >>> check_same_tokenizer(CharacterTokenizer(("a", "b")), CharacterTokenizer(("b", "a")), "runs/first")
        Traceback (most recent call last):
            ...
        jaxgpt.config.errors.RequestError: data.tokenizer has 2 ids, and id 0 means 'b', but runs/first was \
trained with 2 ids, and id 0 meant 'a'; leave data.tokenizer out, the one it was trained with comes along
    """
    if found.to_json() == expected.to_json():
        return
    comes_along = f"leave {option} out, the one it was trained with comes along"
    if found.fingerprint() == expected.fingerprint():
        raise RequestError(
            f"{option} has the ids that {owner} was trained with, but other rules for a text (how it is cut, or "
            f"which tokens are special); {comes_along}"
        )
    shared = range(min(found.vocab_size, expected.vocab_size))
    different = next((i for i in shared if found.decode([i]) != expected.decode([i])), None)
    now = before = ""
    if different is not None:
        now = f", and id {different} means {found.decode([different])!r}"
        before = f", and id {different} meant {expected.decode([different])!r}"
    raise RequestError(
        f"{option} has {found.vocab_size} ids{now}, but {owner} was trained with {expected.vocab_size} ids{before}; "
        f"{comes_along}"
    )
