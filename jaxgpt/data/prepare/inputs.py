"""Which files are read: those named, and those of a folder that are text or JSONL by their ending."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jaxgpt.config import RequestError, some

from ..corpus import check_beginning

OPTION = "INPUT"
_HIDDEN = "hidden, their names begin with a dot"
_TEXT = (".txt", ".text", ".md")
_LINES = (".jsonl", ".ndjson")
_FOREIGN = {
    **dict.fromkeys((".gz", ".bz2", ".xz", ".zst", ".zip", ".tar", ".7z"), "unpack it first"),
    **dict.fromkeys((".parquet", ".arrow", ".csv", ".tsv"), "write its texts as JSONL, one object a line"),
    ".json": "write its documents as JSONL, one object a line",
}


class Input(NamedTuple):
    """A file to read.

    Attributes:
        path: where it lies, as it was named.
        is_lines: whether each line is a JSON object with a document; otherwise the file is one document.
        size: bytes, when it was found.
    """

    path: Path
    is_lines: bool
    size: int


class Found(NamedTuple):
    """The files to read, in order, and what folders hold that is not read, by the reason in words."""

    inputs: list[Input]
    skipped: dict[str, list[str]]


def find_inputs(names: Sequence[str]) -> Found:
    """Return the files that names stand for; a folder stands for its files of a known ending, sorted, at any depth.

    In a folder, hidden files and folders and links to folders are left out.

    Raises:
        RequestError: a name twice, a file that cannot be read, is no regular one, is empty, begins with a byte order
            mark or is packed; a folder with nothing to read.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written = [Path(folder, name).write_text("to be") for name in ("b.txt", "a.jsonl", "c.png")]
        ...     found = find_inputs([folder])
        >>> [(one.path.name, one.is_lines) for one in found.inputs]
        [('a.jsonl', True), ('b.txt', False)]
        >>> [(reason, Path(name).name) for reason, (name,) in found.skipped.items()]
        [('by their ending neither text nor JSONL', 'c.png')]
    """
    inputs: list[Input] = []
    skipped: dict[str, list[str]] = {}
    for name in names:
        try:
            below = _below(name) if os.path.isdir(name) else {Path(name): None}
            taken = [path for path, reason in below.items() if reason is None]
            inputs += [_input(path) for path in taken]
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            if isinstance(error, RequestError):
                raise
            reason = error.strerror if isinstance(error, OSError) else error
            place = str(getattr(error, "filename", None) or name)
            raise RequestError(f"{OPTION}: cannot read {place!r}: {reason}; give readable files or folders") from None
        if not taken:
            raise RequestError(
                f"{OPTION}: the folder {name!r} has no file to read that ends in {', '.join((*_TEXT, *_LINES))} (it "
                f"has {some([path.name for path in below])}); name files themselves, whatever they are called"
            )
        for path, reason in below.items():
            if reason is not None:
                skipped.setdefault(reason, []).append(str(path))
    _refuse_twice(inputs)
    return Found(inputs, skipped)


def _below(folder: str) -> dict[Path, str | None]:
    """Return the files at any depth, in an order that depends on names alone, and why one is not read."""

    def refuse(error: OSError) -> None:
        raise error

    found: dict[Path, str | None] = {}
    for root, folders, names in os.walk(folder, onerror=refuse):
        reasons = {name: _folder_obstacle(Path(root, name)) for name in sorted(folders)}
        folders[:] = [name for name, reason in reasons.items() if reason is None]
        found |= {Path(root, name): _file_obstacle(Path(root, name)) for name in sorted(names)}
        found |= {Path(root, name): reason for name, reason in reasons.items() if reason is not None}
    return found


def _folder_obstacle(path: Path) -> str | None:
    if path.name.startswith("."):
        return _HIDDEN
    return "links to folders" if path.is_symlink() else None


def _file_obstacle(path: Path) -> str | None:
    if path.name.startswith("."):
        return _HIDDEN
    return None if path.suffix.lower() in (*_TEXT, *_LINES) else "by their ending neither text nor JSONL"


def _input(path: Path) -> Input:
    if path.suffix.lower() in _FOREIGN:
        raise RequestError(f"{OPTION}: {str(path)!r} is no plain text by its ending; {_FOREIGN[path.suffix.lower()]}")
    if path.exists() and not path.is_file():
        raise RequestError(
            f"{OPTION}: {str(path)!r} is no regular file; to go on after an interruption, inputs are read again, so "
            "write the text to a file first"
        )
    with path.open("rb") as file:
        check_beginning(file.read(12), str(path), OPTION)
        return Input(path, path.suffix.lower() in _LINES, os.fstat(file.fileno()).st_size)


def _refuse_twice(inputs: Sequence[Input]) -> None:
    seen: dict[Path, Path] = {}
    for one in inputs:
        resolved = one.path.resolve()
        if resolved in seen:
            raise RequestError(f"{OPTION}: {one.path} is the same file as {seen[resolved]}; name each once")
        seen[resolved] = one.path
