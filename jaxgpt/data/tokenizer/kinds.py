"""The table of kinds, and the tokenizer that a name, a path or a record stands for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxgpt.config import RequestError, nearest

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

# What `data.tokenizer` may name without a file: from the text of a run to its tokenizer.
NAMED: dict[str, Callable[[str], Tokenizer]] = {
    "characters": CharacterTokenizer.train,
    "bytes": lambda text: ByteTokenizer(),
    "gpt2": lambda text: Gpt2Tokenizer(find_gpt2_merges()),
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


def make_tokenizer(name: str, text: str) -> Tokenizer:
    """Return the tokenizer that `data.tokenizer` names: a kind, or a path that holds one.

    Args:
        name: `characters` (those of `text`), `bytes`, `gpt2`, or the path of a file or folder.
        text: the text it is for.

    Raises:
        RequestError: neither a kind (with the nearest) nor a path, a path without a tokenizer, or an empty text.

    Example:
        >>> make_tokenizer("characters", "to be").vocab_size, make_tokenizer("bytes", "to be").vocab_size
        (5, 256)
    """
    if name in NAMED:
        return NAMED[name](text)
    if not os.path.exists(name):
        raise RequestError(
            f"data.tokenizer: {name!r} is neither a kind nor a file{nearest(name, NAMED)} (kinds: "
            f"{', '.join(NAMED)}; or the path of {READABLE}, or of a folder that holds one)"
        )
    tokenizer = tokenizer_from_path(Path(name))
    if tokenizer is None:
        raise RequestError(f"data.tokenizer: the folder {name} holds no tokenizer; it needs {READABLE}")
    return tokenizer


def choose_tokenizer(
    name: str | None,
    text: str,
    *,
    roles: Sequence[str] = (),
    trained: Tokenizer | None = None,
    owner: str | None = None,
) -> Tokenizer:
    """Return the tokenizer of a run: the one its parameters were trained with, or the one that is named.

    Args:
        name: what `data.tokenizer` names, None where it names none.
        text: the run's text.
        roles: the special tokens that the run needs; a tokenizer made for it is given those that it lacks.
        trained: the tokenizer that the parameters were trained with, None where they came without.
        owner: what the parameters belong to, in words; None for fresh ones, which take `characters` by default.

    Raises:
        RequestError: `name` names one whose ids mean something else than those of `trained`, or nothing says which
            tokenizer the parameters were trained with.

    Example:
        >>> choose_tokenizer(None, "to be").vocab_size
        5
    """
    if trained is not None:
        known = name == Gpt2Tokenizer.kind and trained.fingerprint() == FINGERPRINT  # no need of its file
        if name is not None and not known:
            check_same_tokenizer(trained, with_roles(make_tokenizer(name, text), roles), owner)
        return trained
    if name is None and owner is not None:
        raise RequestError(f"{owner} holds no tokenizer; name the one it was trained with in data.tokenizer")
    return with_roles(make_tokenizer(name or CharacterTokenizer.kind, text), roles)


def check_same_tokenizer(expected: Tokenizer, found: Tokenizer, owner: str | None) -> None:
    """Refuse a tokenizer whose ids do not mean what a model has learned them to mean.

    Args:
        expected: the tokenizer that the model was trained with.
        found: the one that `data.tokenizer` names.
        owner: what `expected` belongs to, in words.

    Raises:
        RequestError: an id differs, which the message names, or there are more ids or fewer.

    Example:
        >>> check_same_tokenizer(CharacterTokenizer(("a", "b")), CharacterTokenizer(("b", "a")), "runs/first")
        Traceback (most recent call last):
            ...
        jaxgpt.config.errors.RequestError: data.tokenizer has 2 ids, and id 0 means 'b', but runs/first was \
trained with 2 ids, and id 0 meant 'a'; leave data.tokenizer out, the one it was trained with comes along
    """
    if found.fingerprint() == expected.fingerprint():
        return
    shared = range(min(found.vocab_size, expected.vocab_size))
    different = next((i for i in shared if found.decode([i]) != expected.decode([i])), None)
    now = before = ""
    if different is not None:
        now = f", and id {different} means {found.decode([different])!r}"
        before = f", and id {different} meant {expected.decode([different])!r}"
    raise RequestError(
        f"data.tokenizer has {found.vocab_size} ids{now}, but {owner} was trained with {expected.vocab_size} ids"
        f"{before}; leave data.tokenizer out, the one it was trained with comes along"
    )
