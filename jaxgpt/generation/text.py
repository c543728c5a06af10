"""Text of ids that still come: what is certain already can be shown, and nothing that was shown changes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jaxgpt.data.tokenizer import Tokenizer

from .requests import Decode

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # what tokenizers show in place of bytes that are not, or not yet, UTF-8


class TextPieces:
    """Turns growing ids into pieces of text that together are the text of all of them.

    Held back is what later ids may change: bytes that may become a character, and the beginning of a stop string.

    Example:
        >>> from jaxgpt.data.tokenizer import ByteTokenizer
        >>> ids = ByteTokenizer().encode("aü").tolist()
        >>> pieces = TextPieces(ByteTokenizer().decode)
        >>> pieces.more(ids[:2]), pieces.more(ids)
        ('a', 'ü')
    """

    def __init__(self, decode: Decode, *, broken_id: int | None = None, stop_strings: Sequence[str] = ()) -> None:
        """Begin with no text.

        Args:
            decode: Turns all ids so far into text.
            broken_id: An id that goes on with no character, as `broken_id` finds it; None where there is none.
            stop_strings: Texts that the end may be cut off before.
        """
        self._decode, self._broken_id, self._stop_strings = decode, broken_id, stop_strings
        self._shown = 0

    def more(self, ids: list[int]) -> str:
        """Return the text that is certain now and was not before; `ids` are all there are."""
        text = certain_text(self._decode, ids, self._broken_id)
        end = len(text) - _begun(text, self._stop_strings)
        new = text[self._shown : end]
        self._shown += len(new)
        return new

    def rest(self, text: str) -> str:
        """Return what was not shown of the whole text, once it is known."""
        return text[self._shown :]


def certain_text(decode: Decode, ids: list[int], broken_id: int | None = None) -> str:
    """Return the part of the text that no further id changes.

    Without `broken_id` only replacement characters at the end are uncertain. Some tokenizers take a whole run of
    bytes back when it turns out not to be UTF-8; an id that breaks it shows how far that would go.

    Example:
        >>> certain_text(lambda ids: bytes(ids).decode("utf-8", "replace"), [97, 0xE2, 0x82])
        'a'
    """
    text = decode(ids)
    if broken_id is not None:
        text = _shared_beginning(text, decode([*ids, broken_id]))
    return text.rstrip(_REPLACEMENT)


def broken_id(tokenizer: Tokenizer) -> int | None:
    """Return an id that is no character by itself, None where every id of the tokenizer is one or more.

    Example:
        >>> from jaxgpt.data.tokenizer import ByteTokenizer, CharacterTokenizer
        >>> broken_id(ByteTokenizer()), broken_id(CharacterTokenizer(("a", "b")))
        (128, None)
    """
    every = range(tokenizer.vocab_size)
    if _REPLACEMENT not in tokenizer.decode(list(every)):  # one call instead of one per id
        return None
    return next((i for i in every if tokenizer.decode([i]) == _REPLACEMENT), None)


def place_of_stop(text: str, prompt_text: str, stop_strings: Collection[str]) -> int | None:
    """Return where the first stop string begins in what new ids add to the text of a prompt, None where none does.

    That text may begin with a space that the new ids alone would not show. Where they change the end of the prompt's
    text, as bytes that finish a character do, the change is new.

    Args:
        text: That of the prompt and the new ids.
        prompt_text: That of the prompt.
        stop_strings: What is looked for.

    Example:
        >>> place_of_stop("a. b. c", "a. b", [". ", "c"])
        4
    """
    start = len(_shared_beginning(prompt_text, text))
    places = (text.find(stop, start) for stop in stop_strings)
    return min((place for place in places if place >= 0), default=None)


def _shared_beginning(a: str, b: str) -> str:
    if b.startswith(a):
        return a
    return a[: next(i for i in range(len(a)) if a[i] != b[i : i + 1])]


def _begun(text: str, stop_strings: Collection[str]) -> int:
    """Return the length of the longest beginning of a stop string that the text ends with."""
    lengths = (length for stop in stop_strings for length in range(1, len(stop) + 1) if text.endswith(stop[:length]))
    return max(lengths, default=0)
