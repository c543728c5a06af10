"""The range check that stands before every gather: a compiled one would clamp a wrong id without a word."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from jaxgpt.config import RequestError


def check_token_ids(token_ids: ArrayLike, vocab_size: int, name: str) -> None:
    """Refuse ids that are not whole numbers from 0 to `vocab_size` - 1.

    Args:
        token_ids: ids of any shape; nothing in it is nothing wrong.
        vocab_size: number of ids V.
        name: what the ids are, in the words that begin the message.

    Raises:
        RequestError: an id of another type, or outside the vocabulary; the message names the first one, its
            0-based position and V.

    Example:
        >>> check_token_ids([0, 64], 65, "the prompt")
        >>> check_token_ids([0, 65], 65, "the prompt")
        Traceback (most recent call last):
            ...
        jaxgpt.config.errors.RequestError: the prompt: token id 65 at position 1 is outside 0..64 \
(vocabulary of 65); encode the text with the tokenizer that belongs to this model
    """
    ids = np.asarray(token_ids)
    if not ids.size:
        return
    if ids.dtype.kind not in "iu":
        raise RequestError(
            f"{name}: expected token ids, whole numbers in 0..{vocab_size - 1} (vocabulary of {vocab_size}), "
            f"got {ids.dtype} such as {ids.ravel().tolist()[0]!r}; pass the integers that encode returns"
        )
    outside = (ids < 0) | (ids >= vocab_size)
    if outside.any():
        place = np.unravel_index(int(outside.argmax()), ids.shape)
        position = ", ".join(str(int(index)) for index in place)
        raise RequestError(
            f"{name}: token id {ids[place]} at position {position} is outside 0..{vocab_size - 1} "
            f"(vocabulary of {vocab_size}); encode the text with the tokenizer that belongs to this model"
        )
