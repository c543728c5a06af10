"""What the rest of the project asks of a tokenizer, whichever kind it is."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike


class Tokenizer(Protocol):
    """A frozen value: equal records make equal tokenizers, and nothing about one changes after it was made."""

    @property
    def vocab_size(self) -> int:
        """Number of ids V; they are 0..V-1."""
        ...

    @property
    def special_ids(self) -> dict[str, int]:
        """Ids by role, of those that the tokenizer has among bos, eos, pad and mask; one id may have two roles."""
        ...

    def encode(self, text: str) -> np.ndarray:
        """Return the ids of `text` as int32 [N]: of the text alone, no special token is added or looked for."""
        ...

    def byte_counts(self, text: str) -> np.ndarray:
        """Return how many UTF-8 bytes of `text` each of its ids stands for, int32 [N]; their sum is the text's."""
        ...

    def id_bytes(self) -> np.ndarray | None:
        """Return how many UTF-8 bytes each id stands for, int32 [V], special tokens none; None where that varies."""
        ...

    def decode(self, ids: ArrayLike) -> str:
        """Return the text of `ids` [N]; a special token is shown by its name."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return what `tokenizer_from_json` rebuilds this tokenizer from, without any other file."""
        ...

    def fingerprint(self) -> str:
        """Return a sha256 (hex) of what the ids mean; equal exactly when every id means the same."""
        ...
