"""Where GPT-2's merges may lie on this machine. Nothing is fetched."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jaxgpt.config import RequestError

from .gpt2 import is_gpt2_merges

# tiktoken files what it has fetched under the sha1 of its address.
_ADDRESS = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/vocab.bpe"
_FILE_NAME = "vocab.bpe"


def find_gpt2_merges() -> str:
    """Return the text of GPT-2's vocab.bpe from tiktoken's cache or from an installed package that carries it.

    Raises:
        RequestError: neither has it; the message lists where it was looked for, what was wrong there, and how to
            provide it.
    """
    looked = []
    for path in _places():
        try:
            merges = path.read_bytes().decode("utf-8", "replace")
        except OSError as error:
            looked.append(f"{path} ({error.strerror})")
            continue
        if is_gpt2_merges(merges):
            return merges
        looked.append(f"{path} (damaged, or another model's)")
    raise RequestError(
        "the gpt2 tokenizer needs GPT-2's vocab.bpe (456 kB), which is not on this machine. Looked for: "
        f"{'; '.join([*looked, f'a {_FILE_NAME} in the installed packages'])}. Give the path of a vocab.bpe with "
        "data.tokenizer, or, with a network, let tiktoken fetch it once: "
        "python -c 'import tiktoken; tiktoken.get_encoding(\"gpt2\")'"
    )


def _places() -> Iterator[Path]:
    cache = _tiktoken_cache()
    if cache is not None:
        yield cache / hashlib.sha1(_ADDRESS.encode(), usedforsecurity=False).hexdigest()
    yield from _packaged()


def _tiktoken_cache() -> Path | None:
    """Return tiktoken's folder of fetched files, None where its variable is set to nothing, which turns it off."""
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if variable in os.environ:
            return Path(os.environ[variable]) if os.environ[variable] else None
    return Path(tempfile.gettempdir(), "data-gym-cache")


def _packaged() -> Iterator[Path]:
    """Yield the files of that name in installed packages; lists that do not mention it are not taken apart."""
    for distribution in importlib.metadata.distributions():
        if _FILE_NAME in (distribution.read_text("RECORD") or ""):
            yield from (Path(file.locate()) for file in distribution.files or () if file.name == _FILE_NAME)
