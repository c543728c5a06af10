"""From inputs to a token file: what `jaxgpt data prepare` does."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxgpt.config import RequestError, blamed_on, some

from ..token_file import TokenFile
from ..token_header import TokenHeader, token_dtype
from ..token_ids import check_token_ids
from ..tokenizer import CharacterTokenizer, Tokenizer
from ..tokenizer.checks import utf8_bytes
from .inputs import OPTION, Input
from .journal import Entry
from .partial import PartialFile, journal_path, partial_path, remove_rest
from .pieces import Cutting, before_last_character, cutting_for
from .reading import Job, Mark, Reader
from .workers import in_order

_SECURE_EVERY = 2.0  # seconds of work that a kill may cost
_GREATEST = 2**63 - 1
# (what is done in words, bytes done of it so far, bytes in all); what it raises stops the work.
Watch = Callable[[str, int, int], None]


@dataclasses.dataclass(frozen=True)
class Request:
    """What is asked for.

    Attributes:
        inputs: the files, as `find_inputs` gives them.
        tokenizer: encodes them.
        out: the token file.
        field: the field of a JSONL object that holds its text.
        end_id: the id put after each document; None for none.
        workers: number of threads that encode.
    """

    inputs: Sequence[Input]
    tokenizer: Tokenizer
    out: Path
    field: str
    end_id: int | None
    workers: int

    def identity(self) -> dict[str, Any]:
        """Return what decides the ids, but for the inputs' content."""
        record = json.dumps(self.tokenizer.to_json(), sort_keys=True)
        return {
            "version": 1,
            "inputs": [str(one.path) for one in self.inputs],
            "tokenizer": hashlib.sha256(record.encode("utf-8", "surrogatepass")).hexdigest(),
            "field": self.field,
            "end_token": self.end_id,
            "libraries": {name: importlib.metadata.version(name) for name in ("tiktoken", "tokenizers")},
        }

    def header(self) -> TokenHeader:
        """Return the header with room for what is not yet counted."""
        return TokenHeader(
            vocab_size=self.tokenizer.vocab_size,
            dtype=token_dtype(self.tokenizer.vocab_size).name,
            count=_GREATEST,
            sha256="0" * 64,
            end_id=self.end_id,
            documents=_GREATEST,
            source=self.source(_GREATEST, "0" * 64),
            tokenizer=self.tokenizer.to_json(),
            tokenizer_hash=self.tokenizer.fingerprint(),
        )

    def source(self, size: int, digest: str) -> str:
        """Return what was read, in words."""
        names = [str(one.path).encode("utf-8", "surrogateescape").decode("utf-8", "replace") for one in self.inputs]
        field = f", field {self.field}" if any(one.is_lines for one in self.inputs) else ""
        listed = " of what sha256sum prints of them" if len(names) > 1 else ""
        return f"{some(names)}{field} ({size:,} bytes, sha256 {digest}{listed})"


class Prepared(NamedTuple):
    """What came of it.

    Attributes:
        header: the token file's.
        text_bytes: bytes of text (UTF-8); None where the file was there already.
        read: bytes read and encoded by this call, and the seconds that took.
        seconds: as above.
        resumed: number of ids that an earlier call had made.
    """

    header: TokenHeader
    text_bytes: int | None
    read: int
    seconds: float
    resumed: int


def characters_of(inputs: Sequence[Input], field: str, watch: Watch) -> CharacterTokenizer:
    """Return the tokenizer of the characters of all documents, which takes a reading of its own.

    Raises:
        RequestError: an input that `Reader` refuses, or half a surrogate pair, with its place.
    """
    seen: set[str] = set()
    done, total = 0, sum(one.size for one in inputs)
    for job in Reader(inputs, Cutting(before_last_character), field).jobs(Mark()):
        for segment in job.segments:
            with blamed_on(segment.place):
                utf8_bytes(segment.text)
            seen.update(segment.text)
        done += job.size
        watch("collecting characters", done, total)
    return CharacterTokenizer(tuple(sorted(seen)))


def prepare(request: Request, watch: Watch) -> Prepared:
    """Write the token file, going on from what an earlier call has left.

    Args:
        request: what is asked for.
        watch: called often; may raise to stop the work, of which nothing is lost.

    Raises:
        RequestError: a wrong input, a file that is there already with other content, what is there of it was begun
            for another request or of other inputs, or another process is at it.
        WorkError: the disk refuses.
    """
    _check_apart(request)
    if os.path.lexists(request.out):
        return _already(request, watch)
    with PartialFile.hold(request.out, request.header(), request.identity()) as partial:
        reader = Reader(request.inputs, cutting_for(request.tokenizer), request.field)
        _resume(request, partial, reader, watch)
        resumed, before, start = partial.entry.ids, _bytes_before(request, partial.entry.mark), time.perf_counter()
        try:
            _encode(request, partial, reader, watch)
        finally:
            partial.secure()
        seconds = time.perf_counter() - start
        size = _bytes_before(request, partial.entry.mark)
        header = partial.finish(request.source(size, reader.hashes.of_all(len(request.inputs))))
        return Prepared(header, partial.entry.text_bytes, size - before, seconds, resumed)


def _check_apart(request: Request) -> None:
    """Refuse an input that would be written."""
    out = request.out
    written = {path.resolve(): path for path in (out, partial_path(out), journal_path(out))}
    for one in request.inputs:
        path = written.get(one.path.resolve())
        if path is not None:
            raise RequestError(
                f"{OPTION}: '{one.path}' is {path}, which this command writes; name another file with --out"
            )


def _bytes_before(request: Request, mark: Mark) -> int:
    return sum(one.size for one in request.inputs[: mark.file]) + mark.offset


def _resume(request: Request, partial: PartialFile, reader: Reader, watch: Watch) -> None:
    """Verify what is there: the ids made, then the inputs that they were made of."""
    total = partial_path(request.out).stat().st_size
    partial.resume(_counted("reading what is there", total, watch))
    mark = partial.entry.mark
    try:
        reader.skip_to(mark, _counted("reading inputs again", _bytes_before(request, mark), watch))
    except RequestError as error:
        raise RequestError(f"{error}; put it back as it was, {partial.begin_again()}") from None


def _counted(what: str, total: int, watch: Watch) -> Callable[[int], None]:
    done = 0

    def count(size: int) -> None:
        nonlocal done
        done += size
        watch(what, done, total)

    return count


def _encode(request: Request, partial: PartialFile, reader: Reader, watch: Watch) -> None:
    """Encode what is left, securing it now and then."""
    done, total = _bytes_before(request, partial.entry.mark), sum(one.size for one in request.inputs)
    secured = time.monotonic()
    held: list[memoryview] = []  # of a document that is not at its end: it counts when it is
    state = partial.entry
    jobs = reader.jobs(state.mark)
    results = in_order(_Encoder(request), jobs, request.workers, lambda: watch("encoding", done, total))
    with contextlib.closing(results):
        for job, encoded in results:
            state = _after(state, job, encoded)
            held.append(encoded.ids_N)
            done += job.size
            if job.mark is None:
                continue
            partial.append(held, state)
            held.clear()
            if time.monotonic() - secured >= _SECURE_EVERY:
                partial.secure()
                secured = time.monotonic()


class _Encoded(NamedTuple):
    """A job's ids in the file's dtype, and the bytes of text that they are of."""

    ids_N: memoryview
    text_bytes: int


def _after(state: Entry, job: Job, encoded: _Encoded) -> Entry:
    return dataclasses.replace(
        state,
        ids=state.ids + len(encoded.ids_N),
        documents=state.documents + sum(segment.ends_document for segment in job.segments),
        text_bytes=state.text_bytes + encoded.text_bytes,
        mark=job.mark or state.mark,
    )


@dataclasses.dataclass(frozen=True)
class _Encoder:
    """Encodes jobs; called by several threads at once."""

    request: Request

    def __call__(self, job: Job) -> _Encoded:
        tokenizer, end_id = self.request.tokenizer, self.request.end_id
        rows = [np.empty(0, np.int32)]
        text_bytes = 0
        for segment in job.segments:
            with blamed_on(segment.place):
                rows.append(tokenizer.encode(segment.text))
            text_bytes += len(segment.text.encode("utf-8"))
            if segment.ends_document and end_id is not None:
                rows.append(np.array([end_id], np.int32))
        ids_N = np.concatenate(rows)
        check_token_ids(ids_N, tokenizer.vocab_size, "the tokenizer")
        return _Encoded(ids_N.astype(token_dtype(tokenizer.vocab_size)).data, text_bytes)


def _already(request: Request, watch: Watch) -> Prepared:
    """Accept a file that is what would be made, once it is read and so are the inputs; refuse any other."""
    refusal = f"--out {request.out} is there already, and nothing is overwritten; name another file or move it"
    try:
        tokens = TokenFile.open(request.out)
    except RequestError as error:
        raise RequestError(f"{refusal} ({error})") from None
    reader = Reader(request.inputs, cutting_for(request.tokenizer), request.field)
    total = sum(one.size for one in request.inputs)
    digest = reader.digest(_counted("reading inputs", total, watch))
    expected = dataclasses.replace(
        request.header(),
        count=tokens.header.count,
        sha256=tokens.header.sha256,
        documents=tokens.header.documents,
        source=request.source(total, digest),
    )
    different = [
        field.name
        for field in dataclasses.fields(TokenHeader)
        if getattr(expected, field.name) != getattr(tokens.header, field.name)
    ]
    if different:
        what = ", ".join(different).replace("_", " ")
        sources = f": {tokens.header.source}, not {expected.source}; spelling counts" if "source" in different else ""
        raise RequestError(f"{refusal} (it is of another {what}{sources})")
    itemsize = tokens.ids_N.itemsize
    tokens.check(lambda count: watch("checking ids", count * itemsize, tokens.ids_N.nbytes))
    remove_rest(request.out)
    return Prepared(tokens.header, None, 0, 0.0, tokens.header.count)


def peak_bytes() -> int:
    """Return the most memory that this process has held, in bytes (its threads included).

    Linux says it of the program alone; elsewhere, what held the process before may be counted too.
    """
    with contextlib.suppress(OSError, StopIteration), open("/proc/self/status") as file:
        return 1024 * int(next(line for line in file if line.startswith("VmHWM:")).split()[1])
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss is bytes on macOS, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
