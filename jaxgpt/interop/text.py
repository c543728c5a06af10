"""The tokenizer of a Hugging Face folder: the files that transformers and `tokenizer_from_path` both read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jaxgpt.config import RequestError
from jaxgpt.data.tokenizer import CharacterTokenizer, Gpt2Tokenizer, JsonTokenizer, Tokenizer, tokenizer_from_path

from .architectures import Warn


def read_tokenizer(folder: Path, warn: Warn) -> Tokenizer | None:
    """Return the tokenizer in a folder, or None where there is none.

    The weights are of use without it, so one that cannot be read is a warning, which says what to do.
    """
    try:
        return tokenizer_from_path(folder)
    except RequestError as error:
        warn(f"the tokenizer is left out: {error}")
        return None


def tokenizer_files(tokenizer: Tokenizer) -> dict[str, str]:
    """Return {file name: text} of a tokenizer; nothing for a kind that has no file.

    Example:
        >>> tokenizer_files(CharacterTokenizer(("b", "a")))
        {'vocab.json': '["b", "a"]'}
    """
    if isinstance(tokenizer, CharacterTokenizer):
        return {"vocab.json": _as_json(tokenizer.characters)}
    if isinstance(tokenizer, Gpt2Tokenizer):
        ids = {token: place for place, token in enumerate(tokenizer.tokens)}
        return {"vocab.json": _as_json(ids), "merges.txt": tokenizer.merges}
    if isinstance(tokenizer, JsonTokenizer):
        roles = {f"{role}_token": token for role, token in tokenizer.roles}
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", **roles}
        return {"tokenizer.json": tokenizer.document, "tokenizer_config.json": _as_json(settings)}
    return {}


def special_id_fields(tokenizer: Tokenizer | None) -> dict[str, int | None]:
    """Return the fields of `config.json` that name special tokens; without them transformers takes its own."""
    ids = {} if tokenizer is None else tokenizer.special_ids
    return {f"{role}_token_id": ids.get(role) for role in ("bos", "eos", "pad")}


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
