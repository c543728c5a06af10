"""The text a run learns from, and the identity by which a resumed run knows it again."""

from __future__ import annotations

import codecs
import dataclasses
import hashlib
import platform
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from jaxgpt.config import RequestError, blamed_on

from .foreign import foreign_kind
from .regular import check_regular
from .source import Part, Say, Source
from .tokenizer import Tokenizer

BUILT_IN = "built-in corpus"
Sliceable = TypeVar("Sliceable", str, list, np.ndarray)


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A text, where it came from in words, and the sha256 (hex) of its UTF-8 bytes.

    Example:
        >>> Corpus.of("to be", "a line of Hamlet").identity["characters"]
        5
    """

    text: str
    source: str
    sha256: str

    tokenizer: ClassVar[None] = None
    end_id: ClassVar[None] = None
    kind: ClassVar[str] = "text"

    @classmethod
    def of(cls, text: str, source: str) -> Self:
        """Return the corpus of `text`, hashed; for a file this is the hash that `sha256sum` prints."""
        return cls(text, source, hashlib.sha256(text.encode("utf-8")).hexdigest())

    @property
    def identity(self) -> dict[str, Any]:
        """What a run's manifest keeps of the corpus: source, number of characters, sha256."""
        return {"source": self.source, "characters": len(self.text), "sha256": self.sha256}

    def checked(self, tokenizer: Tokenizer, say: Say) -> Self:
        """Return the corpus itself: encoding it will find what the tokenizer cannot say."""
        del tokenizer, say
        return self

    def ids(self, tokenizer: Tokenizer, part: Part, validation_fraction: float) -> np.ndarray:
        """Return the ids of a part, cut by characters before it is encoded, int32 [N]."""
        return tokenizer.encode(take_part(self.text, validation_fraction, part))

    def byte_counts(self, tokenizer: Tokenizer, part: Part, validation_fraction: float) -> np.ndarray:
        """Return the bytes of those ids, int32 [N]."""
        return tokenizer.byte_counts(take_part(self.text, validation_fraction, part))


def load_corpus(path: str | None, name: str = "data.path", *, built_in: Callable[[], Corpus] | None = None) -> Corpus:
    """Return the corpus in a file, or a built-in one.

    Nothing is stripped, translated or replaced: a file's characters are its UTF-8 bytes decoded, newlines
    included.

    Args:
        path: a UTF-8 text file; None is the text of Python's own manual (the `pydoc_data` module), which is
            there offline and differs a little between Python versions.
        name: the option that gave the path, in the words that begin a message.
        built_in: makes another built-in corpus than the manual.

    Raises:
        RequestError: the file cannot be read, is no regular one, is empty, begins with a byte order mark or is not
            UTF-8.

    Example:
        >>> corpus = load_corpus(None)
        >>> len(corpus.text) > 100_000
        True
    """
    return (built_in or manual_corpus)() if path is None else _file_corpus(path, name)


def manual_corpus() -> Corpus:
    """Return the text of Python's manual: its topics joined, sorted, whatever the order of the module's dict."""
    try:
        from pydoc_data.topics import topics  # here: it is large, and most runs bring their own text
    except ImportError:
        raise RequestError(
            f"the {BUILT_IN} is Python's manual, and this Python {platform.python_version()} was installed "
            "without it (no module pydoc_data.topics); set data.path to a UTF-8 text file"
        ) from None
    text = "\n".join(topics[name] for name in sorted(topics))
    return Corpus.of(text, f"{BUILT_IN} (the manual in Python {platform.python_version()})")


def _file_corpus(path: str, name: str) -> Corpus:
    with blamed_on(name):
        check_regular(path)
    try:
        content = Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise RequestError(f"{name}: cannot read {path!r}: {reason}; give one readable UTF-8 text file") from None
    return Corpus.of(_decode(content, path, name), str(Path(path).resolve()))


def _decode(content: bytes, path: str, name: str) -> str:
    """Return the text of a file's bytes, refusing what would not come back as the same bytes or as text."""
    check_beginning(content, path, name)
    return decode_utf8(content, path, name)


def check_beginning(content: bytes, path: str, name: str) -> None:
    """Refuse a file that is empty, begins with a byte order mark, or as a packed file or a pickle does.

    Args:
        content: the file's bytes; the first dozen tell.
        path: the file.
        name: the option that gave the path, in the words that begin a message.

    Raises:
        RequestError: as above.

    Example:
        >>> check_beginning(b"to be", "hamlet.txt", "data.path")
    """
    if not content:
        raise RequestError(f"{name}: {path!r} is empty; give a file with text in it")
    if content.startswith(codecs.BOM_UTF8):
        raise RequestError(
            f"{name}: {path!r} begins with a byte order mark (EF BB BF), which would become a character "
            "of the vocabulary; save the file as UTF-8 without BOM, or cut its first 3 bytes with `tail -c +4`"
        )
    foreign = foreign_kind(content)
    if foreign is not None:
        raise RequestError(f"{name}: {path!r} is no text but {foreign[0]}; {foreign[1]}")


def decode_utf8(content: bytes, path: str, name: str, *, start: int = 0) -> str:
    """Return the text of a piece of a file that begins at its byte `start`.

    Raises:
        RequestError: not UTF-8; the message has the byte and its offset in the file.

    Example:
        >>> decode_utf8(b"to be", "hamlet.txt", "data.path")
        'to be'
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(
            f"{name}: {path!r} is not UTF-8: byte 0x{content[error.start]:02X} at offset {start + error.start} "
            f"({error.reason}); convert it, for example with `iconv -f LATIN1 -t UTF-8`"
        ) from None


def size_words(identity: Mapping[str, Any]) -> str:
    """Return how large a source is, in words.

    >>> size_words(Corpus.of("to be", "a line of Hamlet").identity)
    '5 characters'
    """
    unit = "tokens" if "tokens" in identity else "characters"
    return f"{identity[unit]:,} {unit}"


def _describe(identity: Mapping[str, Any]) -> str:
    return f"{identity['source']} ({size_words(identity)}, sha256 {identity['sha256'][:12]})"


def check_same_corpus(
    recorded: Mapping[str, Any], corpus: Source, *, option: str = "data.path", otherwise: str = "start a new run"
) -> None:
    """Refuse to go on with another text than the one recorded.

    The hash alone decides: a file may move, but its text may not change.

    Args:
        recorded: the `identity` of the corpus that a run began with.
        corpus: the corpus at hand.
        option: the option that names a text, in the words of the message.
        otherwise: what can be done where the recorded text is not to be had, in the words of the message.

    Raises:
        RequestError: the texts differ; the message describes both and, for the built-in corpus, says why.

    Example:
        >>> corpus = Corpus.of("to be", "hamlet.txt")
        >>> check_same_corpus(corpus.identity, corpus)
    """
    if recorded["sha256"] == corpus.identity["sha256"]:
        return
    advice = f"give the recorded text with {option}, or {otherwise}"
    if recorded["source"].startswith(BUILT_IN) and corpus.source.startswith(BUILT_IN):
        advice = (
            "the built-in corpus is the manual that comes with Python, so its text differs between Python "
            f"versions: use the recorded version, or {otherwise}"
        )
    raise RequestError(
        f"this run's text was {_describe(recorded)}, but now it is {_describe(corpus.identity)}; {advice}"
    )


def take_part(whole: Sliceable, validation_fraction: float, part: Part) -> Sliceable:
    """Return a part of a text, of a list of pairs or of a row of ids, cut as for training.

    >>> take_part("to be", 0.4, "val"), take_part("to be", 0.4, "all")
    ('be', 'to be')
    """
    train, validation = split_by_position(whole, validation_fraction)
    return {"all": whole, "train": train, "val": validation}[part]


def split_by_position(text: Sliceable, validation_fraction: float) -> tuple[Sliceable, Sliceable]:
    """Return the first int(N x (1 - fraction)) of N characters, pairs or ids for training, the rest for validation.

    A text is cut, not its ids, so that the two parts are the same whatever the tokenizer.

    The fraction counts as it is written: 0.8 of 5 characters leaves 1, though 5 x (1 - 0.8) is 0.99... in floats.

    Args:
        text: the whole text, a list of pairs, or a row of ids.
        validation_fraction: share kept for validation, between 0 and 1.

    Example:
        >>> split_by_position("to be", 0.8)
        ('t', 'o be')
    """
    train = int(len(text) * (1 - Fraction(str(validation_fraction))))
    return text[:train], text[train:]
