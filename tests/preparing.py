"""Texts that tests prepare, and a process that is killed while it does."""

import os
from pathlib import Path

import pytest

from jaxgpt.config import RequestError
from jaxgpt.data import ByteTokenizer, TokenFile
from jaxgpt.data.prepare import Request, find_inputs, prepare
from jaxgpt.data.tokenizer.special import with_roles

ENDING = with_roles(ByteTokenizer(), ["eos"])
LINES = "".join(f"line {number} of a play, with don't and 漢字.\n" for number in range(3000))


class Killed(BaseException):
    """The process ends here."""


def ignore(what, done, total):
    """Watch nothing."""


def request_for(*names, tokenizer=ENDING, out="out.tokens", field="text", workers=2):
    end_id = tokenizer.special_ids.get("eos")
    return Request(find_inputs(names).inputs, tokenizer, Path(out), field, end_id, workers)


def refusal(call, *arguments, kind=RequestError) -> str:
    with pytest.raises(kind) as caught:
        call(*arguments)
    return str(caught.value)


def documents_in(path):
    """The texts between end tokens."""
    tokens = TokenFile.open(path)
    tokens.check()
    end = tokens.header.end_id
    texts, text = [], []
    for id in tokens.ids_N.tolist():
        if id == end:
            texts.append(tokens.tokenizer.decode(text))
            text = []
        else:
            text.append(id)
    assert not text
    assert tokens.header.documents == len(texts)
    return texts


def interrupted(request, monkeypatch, calls, after=0):
    """Run until the disk has been asked for `calls` things, then end as a killed process does, `after` bytes late."""
    asked = 0
    originals = {name: getattr(os, name) for name in ("pwrite", "fsync", "ftruncate", "link")}

    def count(name):
        def call(*arguments):
            nonlocal asked
            asked += 1
            if asked == calls:
                if name == "pwrite" and after:
                    originals[name](arguments[0], bytes(arguments[1])[:after], arguments[2])
                raise Killed
            if asked > calls:  # a dead process cleans nothing up
                raise Killed
            return originals[name](*arguments)

        return call

    def stay(path, missing_ok=False):
        if asked >= calls:
            raise Killed
        os.unlink(path) if path.exists() or not missing_ok else None

    with monkeypatch.context() as patched:
        for name in originals:
            patched.setattr(os, name, count(name))
        patched.setattr(Path, "unlink", stay)
        try:
            prepare(request, ignore)
        except Killed:
            return True
    return False
