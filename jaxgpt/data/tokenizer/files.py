"""Tokenizers from the files that other programs left: what a path holds decides which kind it is."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxgpt.config import RequestError

from ..pickles import is_pickle
from ..regular import check_regular
from .characters import CharacterTokenizer
from .gpt2 import BYTE_SYMBOLS, Gpt2Tokenizer, is_gpt2_merges, merge_pairs
from .protocol import Tokenizer
from .tokenizer_json import ROLE_NAMES, JsonTokenizer

READABLE = "a tokenizer.json, vocab.json with merges.txt, GPT-2's vocab.bpe, or vocab.json as a list of characters"
_IN_FOLDERS = ("tokenizer.json", "vocab.json", "vocab.bpe", "merges.txt")  # the first that is there is read
_VOCABULARY_BESIDE = {"merges.txt": "vocab.json", "vocab.bpe": "encoder.json"}
_SENTENCEPIECE = (".model",)
_PICKLES = (".pkl", ".pickle", ".pt", ".pth")
_LLAMA2C = (".bin",)
_FOREIGN = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "tokenizer.pkl", "meta.pkl")


def tokenizer_from_path(path: Path) -> Tokenizer | None:
    """Return the tokenizer in a file, or in a folder such as one of Hugging Face's.

    A tokenizer.json is read as it is; `tokenizer_config.json` beside it says which special token has which role.
    vocab.json with merges.txt, and vocab.bpe with or without encoder.json, are GPT-2's format. A vocab.json that is
    a list of one-character strings (or an object whose one field `chars` is such a list) gives the characters by id.

    Args:
        path: the file, or the folder.

    Returns:
        The tokenizer; None for a folder that holds none.

    Raises:
        RequestError: the file cannot be read, is damaged, is of another kind, or could run code (a pickle).

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     nothing = tokenizer_from_path(Path(folder))
        ...     written = Path(folder, "vocab.json").write_text('["b", "a"]')
        ...     tokenizer = tokenizer_from_path(Path(folder))
        >>> nothing, tokenizer.characters
        (None, ('b', 'a'))
    """
    try:
        return _from_folder(path) if path.is_dir() else _from_file(path)
    except OSError as error:  # a folder that may not be looked into, a name that is too long
        raise RequestError(f"{path}: cannot be read: {error.strerror}; give {READABLE}") from None


def _from_folder(path: Path) -> Tokenizer | None:
    for name in _IN_FOLDERS:
        if (path / name).is_file():
            return _from_file(path / name)
    for name in _FOREIGN:
        if (path / name).is_file():
            _refuse_foreign(path / name)
    return None


def _from_file(path: Path) -> Tokenizer:
    _refuse_foreign(path)
    with _named(path):
        text = _read(path)
        if path.suffix in (".bpe", ".txt"):
            beside = _VOCABULARY_BESIDE.get(path.name)
            return _from_merges(text, beside and path.with_name(beside))
        return _from_document(text, path)


def _from_document(text: str, path: Path) -> Tokenizer:
    """Tell by the JSON's shape which kind of file it is."""
    document = _parse(text)
    if isinstance(document, dict) and isinstance(document.get("model"), dict):
        return JsonTokenizer.of(text, _configured_roles(path.with_name("tokenizer_config.json")))
    if isinstance(document, dict) and document.keys() == {"chars"}:
        document = document["chars"]
    if isinstance(document, list):
        return CharacterTokenizer(tuple(document))
    if _is_vocabulary(document):
        merges = path.with_name("vocab.bpe" if path.name == "encoder.json" else "merges.txt")
        if not merges.is_file():
            raise RequestError(
                f"it maps tokens to ids, but {merges.name}, the merges that go with it, is not beside it"
            )
        return _from_merges(_read(merges), path)
    raise RequestError(f"this JSON is no tokenizer; expected {READABLE}")


def _from_merges(merges: str, vocabulary: Path | None) -> Tokenizer:
    """Return GPT-2's own tokenizer where it is that one, else one with the vocabulary's ids."""
    if vocabulary is None or not vocabulary.is_file():
        return Gpt2Tokenizer(merges)
    with _named(vocabulary):
        ids = _parse(_read(vocabulary))
        if not _is_vocabulary(ids):
            raise RequestError("expected an object that gives each token its id")
    if is_gpt2_merges(merges):
        gpt2 = Gpt2Tokenizer(merges)
        if ids == {token: place for place, token in enumerate(gpt2.tokens)}:
            return gpt2
    roles = _configured_roles(vocabulary.with_name("tokenizer_config.json"))
    return JsonTokenizer.of(_byte_level_document(ids, merges), roles)


def _byte_level_document(ids: Mapping[str, int], merges: str) -> str:
    """Return the tokenizer.json of a vocabulary and merges in GPT-2's format.

    A token that is no byte and that no merge makes cannot come from a text, so it is a special one.
    """
    import tokenizers

    pairs = merge_pairs(merges)
    if any(right.endswith("</w>") for _, right in pairs):
        raise RequestError(
            "its merges mark the ends of words with </w>, as CLIP's do, not spaces, as GPT-2's do; "
            "give the tokenizer.json of this model"
        )
    made = {left + right for left, right in pairs} | set(BYTE_SYMBOLS.values())
    try:
        engine = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=dict(ids), merges=pairs))
    except Exception as error:  # the library raises bare `Exception`
        raise RequestError(
            f"the vocabulary and the merges do not fit together: {error}; take both from one model"
        ) from None
    engine.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = tokenizers.decoders.ByteLevel()
    engine.add_special_tokens(sorted(ids.keys() - made, key=ids.__getitem__))
    return engine.to_str()


def _configured_roles(path: Path) -> dict[str, str]:
    """Return {role: token} of a tokenizer_config.json, nothing where there is none."""
    if not path.is_file():
        return {}
    with _named(path):
        config = _parse(_read(path))
        if not isinstance(config, dict):
            raise RequestError("expected an object with the special tokens")
    named = {role: config.get(f"{role}_token") for role in ROLE_NAMES}
    contents = {role: token.get("content") if isinstance(token, dict) else token for role, token in named.items()}
    return {role: token for role, token in contents.items() if isinstance(token, str)}


def _is_vocabulary(document: Any) -> bool:
    return isinstance(document, dict) and bool(document) and all(type(value) is int for value in document.values())


def _refuse_foreign(path: Path) -> None:
    check_regular(path)
    if path.suffix in _SENTENCEPIECE:
        raise RequestError(
            f"{path} looks like a SentencePiece model, which is not read; give the tokenizer.json of the same "
            "tokenizer (transformers writes one: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(OTHER))"
        )
    if path.suffix in _PICKLES or is_pickle(path):
        raise RequestError(
            f"{path} looks like a pickle, which can run code when it is opened, so it is not; give {READABLE} (of a "
            "table of characters: write them to vocab.json, in the order of their ids)"
        )
    if path.suffix in _LLAMA2C:
        raise RequestError(
            f"{path} looks like llama2.c's tokenizer file, which is not read; give the tokenizer.json of the same "
            "tokenizer"
        )


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(f"not UTF-8 at byte {error.start}; give {READABLE}") from None


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"not whole JSON ({error}); get an undamaged copy") from None


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Put the file before what is wrong with it."""
    try:
        yield
    except RequestError as error:
        raise RequestError(f"{path}: {error}") from None
