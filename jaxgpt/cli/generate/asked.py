"""What `jaxgpt generate` is asked: texts on the command line, or a file with one on each line."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from jaxgpt.config import RequestError, blamed_on, nearest

_FIELDS = ("prompt", "source")


class Asked(NamedTuple):
    """One thing that is asked.

    Attributes:
        prompt, source: The texts, None where not given.
        line: The file and its line that it stands on; None on the command line.
    """

    prompt: str | None
    source: str | None
    line: str | None = None

    def blamed(self, field: str) -> AbstractContextManager[None]:
        """Name one of its texts in the message of a RequestError that the block raises."""
        text = getattr(self, field)
        where = f"--{field}" if text is None else f"--{field} {shlex.quote(text)}"
        return blamed_on(where if self.line is None else f"{self.line}: {field}")

    def refused(self, why: str, how: str, field: str) -> RequestError:
        """Return the error of a text that is missing; `how` is what to do on the command line."""
        if self.line is None:
            return RequestError(f"{why}; {how}")
        return RequestError(f'{self.line}: {why}; write {{"{field}": ...}}')


def asked_on_command_line(options: argparse.Namespace) -> list[Asked]:
    """Return what --prompt and --source ask for; where neither is given, one thing with neither.

    Raises:
        RequestError: not as many prompts as sources.
    """
    prompts, sources = options.prompt, options.source
    if prompts and sources and len(prompts) != len(sources):
        raise RequestError(
            f"{len(prompts)} prompts for {len(sources)} sources; give one --prompt (how the target begins) for each "
            "--source, or none"
        )
    count = len(prompts or sources or [None])
    pairs = zip(prompts or [None] * count, sources or [None] * count, strict=True)
    return [Asked(prompt, source) for prompt, source in pairs]


def asked_in_file(name: str) -> list[Asked]:
    """Return what the lines of a file ask for, of standard input where it is called `-`.

    Raises:
        RequestError: it cannot be read, is empty, or has a line that asks for nothing; the message has its number.
    """
    text = _read(name)
    lines = text.removesuffix("\n").split("\n")  # a JSON string may hold other characters that end lines
    if not text.strip():
        raise RequestError(
            f'--prompts: {_shown(name)} holds no prompts; write a JSON string such as "ROMEO:" on each line'
        )
    return [_asked(f"{_shown(name)} line {number}", line) for number, line in enumerate(lines, 1)]


def _shown(name: str) -> str:
    return "standard input" if name == "-" else name


def _read(name: str) -> str:
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return content.decode("utf-8-sig")
    except OSError as error:
        raise RequestError(f"--prompts: cannot read {name}: {error.strerror}; name a readable file") from None
    except UnicodeDecodeError as error:
        raise RequestError(
            f"--prompts: {_shown(name)} is not UTF-8: byte 0x{content[error.start]:02X} at offset {error.start}; "
            "save it as UTF-8"
        ) from None


def _asked(line: str, text: str) -> Asked:
    expected = 'a JSON string, or an object with "prompt"'
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise RequestError(f"{line}: expected {expected}, got {_begin(text)}") from None
    if isinstance(value, str):
        return Asked(value, None, line)
    if not isinstance(value, dict):
        raise RequestError(f"{line}: expected {expected}, got {_begin(text)}")
    return _from_object(line, value)


def _from_object(line: str, value: dict[str, Any]) -> Asked:
    for name, content in value.items():
        if name not in _FIELDS:
            raise RequestError(
                f"{line}: unknown field {name!r}{nearest(name, _FIELDS)} (fields: {', '.join(_FIELDS)})"
            )
        if not isinstance(content, str):
            raise RequestError(f"{line}: expected {name} to be text, got {_begin(json.dumps(content))}")
    if not value:
        raise RequestError(f'{line}: the object is empty; give it a "prompt"')
    return Asked(value.get("prompt"), value.get("source"), line)


def _begin(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")
