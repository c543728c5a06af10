"""Files of other kinds, told by how they begin: neither their text nor their ids are to be had as they lie."""

from __future__ import annotations

import re

PICKLE = "a pickle"
_PACKED, _HELD = "unpack it first", "write the ids themselves, as uint16 or uint32"
_KINDS = {
    rb"PK\x03\x04": ("a zip archive (torch.save writes such)", _PACKED),
    rb"\x1f\x8b\x08": ("packed by gzip", _PACKED),
    rb"\x28\xb5\x2f\xfd": ("packed by zstd", _PACKED),
    rb"\xfd7zXZ\x00": ("packed by xz", _PACKED),
    rb"BZh[1-9]1AY&SY": ("packed by bzip2", _PACKED),
    rb"\x93NUMPY": ("a NumPy array with a header", _HELD),
    rb"\x80[\x02-\x05]": (PICKLE, _HELD),
}


def foreign_kind(beginning: bytes) -> tuple[str, str] | None:
    """Return what a file that begins so is, and what to do about it; None of what may be a text or ids.

    No UTF-8 text of printable characters begins in one of these ways. Ids may begin as a pickle does, by two bytes.

    Example:
        >>> foreign_kind(bytes.fromhex("1f8b0800")), foreign_kind(b"to be")
        (('packed by gzip', 'unpack it first'), None)
    """
    return next((words for pattern, words in _KINDS.items() if re.match(pattern, beginning)), None)
