"""What a run trains on, whatever holds it: a source of ids that can be cut by position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, Self

import numpy as np

from .tokenizer import Tokenizer

Part = Literal["all", "train", "val"]
Say = Callable[[str], None]


class Source(Protocol):
    """A text, or a file of ids."""

    @property
    def source(self) -> str:
        """Where it came from, in words: for a file its path."""
        ...

    @property
    def kind(self) -> str:
        """What holds the ids, in words."""
        ...

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer that its ids were written with, where it brings one along."""
        ...

    @property
    def end_id(self) -> int | None:
        """The id that stands after each document, None where none does."""
        ...

    @property
    def identity(self) -> dict[str, Any]:
        """What a manifest keeps: `source`, the size in `characters` or `tokens`, `sha256`."""
        ...

    def checked(self, tokenizer: Tokenizer, say: Say) -> Self:
        """Return the source once all of it is known to be in the vocabulary of `tokenizer`.

        Raises:
            RequestError: an id outside it, with its place, or a damaged file.
        """
        ...

    def ids(self, tokenizer: Tokenizer, part: Part, validation_fraction: float) -> np.ndarray:
        """Return the ids of a part, whole numbers [N], in memory or mapped."""
        ...

    def byte_counts(self, tokenizer: Tokenizer, part: Part, validation_fraction: float) -> np.ndarray | None:
        """Return the UTF-8 bytes that each id of a part stands for [N]; None where its ids do not tell."""
        ...
