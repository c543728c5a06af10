"""The refusals that all kinds share: text that is no text, ids that are no row, records of another kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxgpt.config import RequestError

from ..token_ids import check_token_ids

_WORDS = {list: "a list", dict: "an object", str: "text"}


def character_name(character: str) -> str:
    """Return a character as messages show it: quoted, with its code point.

    >>> character_name("x")
    "'x' (U+0078)"
    """
    return f"{character!r} (U+{ord(character):04X})"


def utf8_bytes(text: str) -> bytes:
    """Return the UTF-8 bytes of `text`.

    Raises:
        RequestError: half a surrogate pair, which UTF-8 cannot say; the message names it and its position.

    >>> utf8_bytes("ü").hex()
    'c3bc'
    """
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RequestError(
            f"character {character_name(text[error.start])} at position {error.start} is half a surrogate pair, "
            "not a character; remove or replace it"
        ) from None


def utf8_lengths(text: str) -> np.ndarray:
    """Return the number of UTF-8 bytes of each character of `text`, int32 [N].

    >>> utf8_lengths("aü漢🙂").tolist()
    [1, 2, 3, 4]
    """
    code_points = np.frombuffer(text.encode("utf-32-le"), "<u4")
    return 1 + sum((code_points >= first).astype(np.int32) for first in (0x80, 0x800, 0x10000))


def id_row(ids: ArrayLike, vocab_size: int) -> np.ndarray:
    """Return `ids` as int64 [N].

    Raises:
        RequestError: ids that are not one row, or one that is no whole number or outside the vocabulary.

    >>> id_row([2, 0], 3).tolist()
    [2, 0]
    """
    check_token_ids(ids, vocab_size, "decode")
    ids_N = np.asarray(ids, dtype=np.int64)
    if ids_N.ndim != 1:
        raise RequestError(f"decode: expected one row of ids, got shape {ids_N.shape}; decode each row by itself")
    return ids_N


def check_record(record: Mapping[str, Any], kind: str, **fields: type) -> None:
    """Refuse a record that is not of `kind`, or whose fields are not exactly `kind` and `fields` of those types.

    Raises:
        RequestError: as above.

    >>> check_record({"kind": "characters", "characters": ["a"]}, "characters", characters=list)
    """
    if record.get("kind") != kind:
        raise RequestError(f"tokenizer: expected kind '{kind}', got {record.get('kind')!r}; use its own class")
    fits = set(record) == {"kind", *fields} and all(isinstance(record[name], fields[name]) for name in fields)
    if not fits:
        expected = " and ".join(["'kind'", *(f"'{name}' ({_WORDS[cls]})" for name, cls in fields.items())])
        raise RequestError(
            f"tokenizer of kind '{kind}': expected the fields {expected}, "
            f"got {', '.join(sorted(map(repr, record)))}; save the tokenizer again"
        )
