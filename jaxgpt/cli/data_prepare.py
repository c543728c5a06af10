"""`jaxgpt data prepare`: texts of any size into one token file."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxgpt.config import RequestError, some

from .parser import Parser, whole_number

if TYPE_CHECKING:
    from jaxgpt.data import Tokenizer
    from jaxgpt.data.prepare import Input, Prepared, Request

    from .data_progress import Progress

_MOST_WORKERS = 256
_DESCRIPTION = """Encode texts of any size into one token file, which `jaxgpt train --data.path FILE` reads.

A text file (UTF-8) is one document; of JSONL each line is one, in the field --field of its object. Of a folder the
files that end in .txt, .text, .md, .jsonl or .ndjson are read, at any depth, sorted; hidden ones, links to folders
and all others are left out, which is said.

After each document stands an end token: the tokenizer's own, or, where it has none and there are several documents,
one that is added behind its ids. The token file's tokenizer is then the one with that token.

Interrupted, however hard, the same command goes on from what is whole, and the file is the same to the byte.
"""


def main(arguments: list[str]) -> int:
    """Run the sub-command.

    Raises:
        RequestError: an unknown option, an input that is no text, or what `prepare` refuses.
        WorkError: the disk refused.
        StoppedError: a signal asked to stop.
    """
    options = _parse(arguments)
    _check_options(options)
    from jaxgpt.data.prepare import prepare
    from jaxgpt.training.stop import StoppedError, watch_for_stop

    from .data_progress import Progress

    try:
        with watch_for_stop() as stop, Progress(stop, _again(arguments)) as progress:
            request = _request(options, progress)
            prepared = prepare(request, progress)
    except StoppedError as error:
        _leave_busy_workers(error)
        raise
    facts = _facts(request, prepared)
    print(json.dumps(facts, indent=2) if options.json else "\n".join(_summary(facts, prepared)))
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="jaxgpt data prepare",
        description=_DESCRIPTION,
    )
    parser.add_argument(
        "inputs", metavar="INPUT", nargs="+", help="a text file, a JSONL file, or a folder of such files"
    )
    parser.add_argument(
        "--tokenizer",
        metavar="NAME",
        required=True,
        help="bytes, gpt2, characters (those of the inputs, which are then read twice), or the path of a tokenizer's "
        "file or folder, such as a tokenizer.json (required)",
    )
    parser.add_argument(
        "--out", metavar="FILE", required=True, help="the token file to write; none is overwritten (required)"
    )
    parser.add_argument("--field", metavar="NAME", help="the field of a JSONL object with its text (default: text)")
    ending = parser.add_mutually_exclusive_group()
    ending.add_argument(
        "--end-token",
        action="store_true",
        default=None,
        help="put an end token after each document, also where there is one only (default: of a tokenizer that has "
        "none itself, where there are several documents or JSONL)",
    )
    ending.add_argument(
        "--no-end-token",
        dest="end_token",
        action="store_false",
        help="put nothing after a document (default: see --end-token)",
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=whole_number,
        default=_cores(),
        help="threads that encode (default: one a core)",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON (default: in words)")
    return parser.parse(arguments)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_options(options: argparse.Namespace) -> None:
    out = Path(options.out)
    if options.workers < 1:
        raise RequestError(f"--workers: expected at least 1, got {options.workers}")
    if options.workers > max(_MOST_WORKERS, _cores()):
        raise RequestError(
            f"--workers: expected at most {max(_MOST_WORKERS, _cores())}, got {options.workers}; threads beyond one "
            f"a core, of which there are {_cores()}, take memory and make nothing faster"
        )
    if os.path.isdir(out):
        raise RequestError(f"--out {out} is a folder; name a file, such as {out / 'text.tokens'}")
    if not os.path.isdir(out.parent):
        raise RequestError(f"--out {out}: there is no folder {out.parent}; make it, or name another file")


def _again(arguments: list[str]) -> str:
    return shlex.join(["jaxgpt", "data", "prepare", *arguments])


def _request(options: argparse.Namespace, progress: Progress) -> Request:
    """Find the inputs and the tokenizer, and say what will be done."""
    from jaxgpt.data.prepare import Request, find_inputs

    found = find_inputs(options.inputs)
    total = sum(one.size for one in found.inputs)
    progress.say(f"reading {some([_named(one) for one in found.inputs])}: {total / 1e6:,.1f} MB")
    for reason, names in found.skipped.items():
        progress.say(f"leaving out {some(names)}: {reason}")
    field = _field(options, found.inputs)
    tokenizer = _ending(options, _tokenizer(options, found.inputs, field, progress), found.inputs, progress)
    end_id = None if options.end_token is False else tokenizer.special_ids.get("eos")
    _say_if_whole(tokenizer, progress)
    return Request(found.inputs, tokenizer, Path(options.out), field, end_id, options.workers)


def _field(options: argparse.Namespace, inputs: Sequence[Input]) -> str:
    if options.field is None:
        return "text"
    if not any(one.is_lines for one in inputs):
        raise RequestError(
            f"--field {options.field}: none of the files is JSONL, so it would name nothing; leave it out, or let "
            "the names of JSONL files end in .jsonl"
        )
    return options.field


def _ending(
    options: argparse.Namespace, tokenizer: Tokenizer, inputs: Sequence[Input], progress: Progress
) -> Tokenizer:
    """Return the tokenizer, with an end token where one is needed that it lacks."""
    from jaxgpt.data.tokenizer.special import with_roles

    if options.end_token is False or "eos" in tokenizer.special_ids:
        return tokenizer
    if not (options.end_token or len(inputs) > 1 or inputs[0].is_lines):
        progress.say("this tokenizer has no end token, and nothing stands behind the one document; see --end-token")
        return tokenizer
    ending = with_roles(tokenizer, ["eos"])
    progress.say(
        f"this tokenizer has no end token: id {ending.special_ids['eos']} is added for it, and the token file's "
        "tokenizer has it too; see --no-end-token"
    )
    return ending


def _named(one: Input) -> str:
    return f"{one.path} ({'a document a line' if one.is_lines else 'one document'})"


def _tokenizer(options: argparse.Namespace, inputs: Sequence[Input], field: str, progress: Progress) -> Tokenizer:
    from jaxgpt.data import CharacterTokenizer, make_tokenizer
    from jaxgpt.data.prepare.preparation import characters_of

    if options.tokenizer == CharacterTokenizer.kind:
        return characters_of(inputs, field, progress)
    return make_tokenizer(options.tokenizer, None, option="--tokenizer")


def _say_if_whole(tokenizer: Tokenizer, progress: Progress) -> None:
    from jaxgpt.data.prepare.pieces import cutting_for

    obstacle = cutting_for(tokenizer).obstacle
    if obstacle is not None:
        progress.say(
            f"each document is encoded whole, because {obstacle}; the longest ones, as many at a time as there are "
            "workers, need memory of several times their size"
        )


def _leave_busy_workers(error: Any) -> None:
    """End the process where a worker is inside a library that cannot be interrupted, as with a long document."""
    from jaxgpt.data.prepare.workers import still_running

    if still_running(1.0):
        print(f"jaxgpt: {error}", file=sys.stderr)
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(error.exit_code)


def _facts(request: Request, prepared: Prepared) -> dict[str, Any]:
    from jaxgpt.data.prepare.preparation import peak_bytes

    header = prepared.header
    text_bytes, seconds = prepared.text_bytes, prepared.seconds
    return {
        "path": str(request.out),
        "tokens": header.count,
        "dtype": header.dtype,
        "vocab_size": header.vocab_size,
        "documents": header.documents,
        "end_id": header.end_id,
        "bytes_per_token": None if text_bytes is None else text_bytes / header.count,
        "sha256": header.sha256,
        "source": header.source,
        "tokens_from_earlier_calls": prepared.resumed,
        "bytes_read": prepared.read,
        "seconds": seconds,
        "peak_memory_bytes": peak_bytes(),
        "train": shlex.join(["jaxgpt", "train", "--data.path", str(request.out)]),
    }


def _summary(facts: dict[str, Any], prepared: Prepared) -> list[str]:
    end = "nothing" if facts["end_id"] is None else f"id {facts['end_id']}"
    lines = [
        f"{facts['path']}: {facts['tokens']:,} tokens ({facts['dtype']}) of {facts['documents']:,} documents, {end} "
        "after each"
    ]
    if prepared.text_bytes is None:
        lines.append(
            "it was there already, and is what this command makes: its ids and the inputs were read and compared"
        )
    else:
        speed = f"{facts['bytes_read'] / 1e6:,.1f} MB in {facts['seconds']:.1f} s"
        if facts["seconds"] > 0:
            speed += f" ({facts['bytes_read'] / 1e6 / facts['seconds']:.1f} MB/s)"
        earlier = facts["tokens_from_earlier_calls"]
        resumed = f", {earlier:,} tokens were there from an earlier call" if earlier else ""
        lines.append(f"{facts['bytes_per_token']:.2f} bytes of text per token; {speed}{resumed}")
    lines += [
        f"peak memory {facts['peak_memory_bytes'] / 1e6:,.0f} MB; sha256 of the ids {facts['sha256']}",
        f"train on it with:\n  {facts['train']}",
    ]
    return lines
