"""What the ids of a sub-word tokenizer mean, as one hash that does not depend on which library runs it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any


def vocabulary_fingerprint(tokens: Sequence[str], decoder: Mapping[str, Any] | None) -> str:
    """Return the sha256 (hex) of the tokens in id order and of what turns them into text.

    Args:
        tokens: what each id stands for, in the characters of the vocabulary.
        decoder: the decoder of a tokenizer.json; of a byte-level one only the type counts, its other fields
            change no text.

    Example:
        >>> vocabulary_fingerprint(["a", "b"], None) == vocabulary_fingerprint(["b", "a"], None)
        False
        >>> byte_level, same = {"type": "ByteLevel"}, {"type": "ByteLevel", "use_regex": True}
        >>> vocabulary_fingerprint(["a"], byte_level) == vocabulary_fingerprint(["a"], same)
        True
    """
    if decoder is not None and decoder.get("type") == "ByteLevel":
        decoder = {"type": "ByteLevel"}
    meaning = json.dumps([decoder, list(tokens)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(meaning.encode()).hexdigest()
