"""Where a text may be cut so that the ids of its pieces, joined, are the ids of the whole.

GPT-2's pattern finds pieces from left to right, and none of its alternatives takes both a visible character and white
space behind it. So one of its pieces ends at every place between the two. What comes before such a place does not
depend on what comes after it: white space alone looks ahead, at the character behind it, which, before the place, is
the visible one at the latest, and letters, numbers and signs end at white space as they end at the end of a text.
What comes after does not depend on what came before, since nothing looks back. Each piece is merged by itself. Hence
the ids on both sides of the place, joined, are those of the whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ..tokenizer import ByteTokenizer, CharacterTokenizer, Gpt2Tokenizer, JsonTokenizer, Tokenizer
from ..tokenizer.special import ExtendedTokenizer

# Returns the last place in UTF-8 bytes where a text may be cut, 0 where there is none; a byte is always after it.
LastCut = Callable[[bytes], int]

# Every white space of Unicode that is not ASCII.
_WIDE_SPACE = (
    rb"(?<!\xc2[\x85\xa0])(?<!\xe1\x9a\x80)(?<!\xe2\x80[\x80-\x8a\xa8\xa9\xaf])(?<!\xe2\x81\x9f)(?<!\xe3\x80\x80)"
)
_LAST_GAP = re.compile(rb"(?s)(.*[!-~\x80-\xff])" + _WIDE_SPACE + rb"[\t\n\r ]")
_LAST_CHARACTER = re.compile(rb"(?s)(.*)[^\x80-\xbf]")


class Cutting(NamedTuple):
    """A way to cut texts.

    Attributes:
        last_cut: finds a place.
        obstacle: why a document is never cut, in words; None where it may be.
    """

    last_cut: LastCut
    obstacle: str | None = None


def before_white_space(content: bytes) -> int:
    """Return the last place between a visible character and a blank, a tab or a line break after it.

    >>> before_white_space(b"to be  or"), before_white_space(b"  to")
    (5, 0)
    """
    found = _LAST_GAP.match(content)
    return found.end(1) if found else 0


def before_last_character(content: bytes) -> int:
    """Return where the last character begins, which may not be all there.

    >>> before_last_character("aü".encode()), before_last_character(b"a\\xc3")
    (1, 1)
    """
    found = _LAST_CHARACTER.match(content)
    return found.end(1) if found else 0


def nowhere(content: bytes) -> int:
    """Return 0: the text stays whole."""
    return 0


def cutting_for(tokenizer: Tokenizer) -> Cutting:
    """Return the way to cut texts that changes none of this tokenizer's ids.

    Example:
        >>> cutting_for(ByteTokenizer()).obstacle is None
        True
    """
    if isinstance(tokenizer, ExtendedTokenizer):
        return cutting_for(tokenizer.base)
    if isinstance(tokenizer, CharacterTokenizer | ByteTokenizer):
        return Cutting(before_last_character)
    if isinstance(tokenizer, Gpt2Tokenizer):
        return Cutting(before_white_space)
    obstacle = _obstacle(tokenizer.document) if isinstance(tokenizer, JsonTokenizer) else "it is of another kind"
    return Cutting(nowhere, obstacle) if obstacle else Cutting(before_white_space)


def _obstacle(document: str) -> str | None:
    """Return what in a tokenizer.json may make ids depend on more than GPT-2's pattern looks at, None for nothing."""
    parts = json.loads(document)
    cut = parts.get("pre_tokenizer") or {}
    if parts.get("normalizer") is not None:
        return f"its normalizer {parts['normalizer'].get('type')} may look at more than one character"
    if cut.get("type") != "ByteLevel" or not cut.get("use_regex", True):
        return f"its pre-tokenizer {cut.get('type')} is not GPT-2's pattern"
    if cut.get("add_prefix_space", True):
        return "it puts a space before a text"
    if parts["model"].get("type", "BPE") != "BPE":
        return f"its model is {parts['model']['type']}"
    if not all(token.get("special") for token in parts.get("added_tokens") or ()):
        return "it has added tokens that are looked for in the text"
    return None


def cut_pieces(blocks: Iterable[bytes], last_cut: LastCut) -> Iterator[tuple[bytes, bool]]:
    """Cut a text that comes in blocks; yield (piece, whether it is the last).

    A piece ends at the last place of a block. One without a place is joined with those after it, so a piece has a
    block's size or as much as there is up to the next place.

    >>> list(cut_pieces([b"to be ", b"or"], before_white_space))
    [(b'to be', False), (b' or', True)]
    """
    held: list[bytes] = []  # no place in it, nor where two of its parts meet
    tail = b""  # its last character, which decides whether the next block's first one may be cut off
    for block in blocks:
        cut = last_cut(tail + block) - len(tail)
        if cut > 0 or (cut == 0 and held):
            yield b"".join([*held, block[:cut]]), False
            held, tail, block = [], b"", block[cut:]
        held.append(block)
        tail = (tail + block)[-4:]
    if held:
        yield b"".join(held), True
