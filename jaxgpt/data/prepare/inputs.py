"""Which files are read: those named, and those of a folder that are text or JSONL by their ending."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from jaxgpt.config import RequestError, some

from ..corpus import check_beginning

OPTION = "INPUT"
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
    """The files to read, in order, and the names of those in folders that are not."""

    inputs: list[Input]
    skipped: list[str]


def find_inputs(names: Sequence[str]) -> Found:
    """Return the files that names stand for; a folder stands for its files of a known ending, sorted, at any depth.

    Raises:
        RequestError: a name twice, a file that cannot be read, is no regular one, is empty, begins with a byte order
            mark or is packed; a folder with nothing to read.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written = [Path(folder, name).write_text("to be") for name in ("b.txt", "a.jsonl", "c.png")]
        ...     found = find_inputs([folder])
        >>> [(one.path.name, one.is_lines) for one in found.inputs], [Path(name).name for name in found.skipped]
        ([('a.jsonl', True), ('b.txt', False)], ['c.png'])
    """
    inputs: list[Input] = []
    skipped: list[str] = []
    for name in names:
        try:
            in_folder = os.path.isdir(name)
            paths = list(_files_below(name)) if in_folder else [Path(name)]
            taken = [path for path in paths if not in_folder or _is_known(path)]
            skipped += [str(path) for path in paths if in_folder and not _is_known(path)]
            inputs += [_input(path) for path in taken]
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            if isinstance(error, RequestError):
                raise
            reason = error.strerror if isinstance(error, OSError) else error
            place = str(getattr(error, "filename", None) or name)
            raise RequestError(f"{OPTION}: cannot read {place!r}: {reason}; give readable files or folders") from None
        if not taken:
            raise RequestError(
                f"{OPTION}: the folder {name!r} has no file that ends in {', '.join((*_TEXT, *_LINES))} (it has "
                f"{some([path.name for path in paths])}); name files themselves, whatever they are called"
            )
    _refuse_twice(inputs)
    return Found(inputs, skipped)


def _is_known(path: Path) -> bool:
    return path.suffix.lower() in (*_TEXT, *_LINES)


def _files_below(folder: str) -> Iterator[Path]:
    """Yield the files at any depth, in an order that depends on their names alone."""

    def refuse(error: OSError) -> None:
        raise error

    for root, folders, names in os.walk(folder, onerror=refuse):
        folders.sort()
        yield from (Path(root, name) for name in sorted(names))


def _input(path: Path) -> Input:
    if path.suffix.lower() in _FOREIGN:
        raise RequestError(f"{OPTION}: {str(path)!r} is no plain text by its ending; {_FOREIGN[path.suffix.lower()]}")
    if path.exists() and not path.is_file():
        raise RequestError(
            f"{OPTION}: {str(path)!r} is no regular file; to go on after an interruption, inputs are read again, so "
            "write the text to a file first"
        )
    with path.open("rb") as file:
        check_beginning(file.read(3), str(path), OPTION)
        return Input(path, path.suffix.lower() in _LINES, os.fstat(file.fileno()).st_size)


def _refuse_twice(inputs: Sequence[Input]) -> None:
    seen: dict[Path, Path] = {}
    for one in inputs:
        resolved = one.path.resolve()
        if resolved in seen:
            raise RequestError(f"{OPTION}: {one.path} is the same file as {seen[resolved]}; name each once")
        seen[resolved] = one.path
