"""Pickles are told by their content, and never opened."""

from __future__ import annotations

from pathlib import Path


def is_pickle(path: Path) -> bool:
    """Return whether a file is a pickle, or a zip archive of one, as torch.save writes: by its first bytes.

    The content decides and not the name, since `.bin` is the name of other files too.
    """
    with path.open("rb") as file:
        first = file.read(2)
    return first == b"PK" or (len(first) == 2 and first[0] == 0x80 and first[1] <= 5)
