"""Folders of Hugging Face transformers: read, and written so that transformers opens them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from jaxgpt.config import ModelConfig, RequestError, WorkError
from jaxgpt.data.tokenizer import Tokenizer
from jaxgpt.model.parameters import Params, check_parameters
from jaxgpt.runs.trees import differences, named_leaves, nested

from .architectures import Warn, architecture_of, read_config, write_config
from .keys import HEAD_KEY, KeyLayout, Part, buffer_keys, expected_keys, expected_shape, join, spelling, split
from .pairing import halved
from .tensors import FILE_NAME, Tensor, dtype_words, open_tensors
from .text import read_tokenizer, special_id_fields, tokenizer_files

CONFIG_NAME = "config.json"


class Reading(NamedTuple):
    """What a folder or a file of others held.

    Attributes:
        config, params, tokenizer: The model; params are float32, the tokenizer is None where there is none.
        source: What was read, in words.
    """

    config: ModelConfig
    params: Params
    tokenizer: Tokenizer | None
    source: str


def read_document(folder: Path) -> dict[str, Any]:
    """Return the parsed `config.json` of a folder.

    Raises:
        RequestError: no such file, or no JSON object in it.
    """
    path = folder / CONFIG_NAME
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror}; a Hugging Face folder has this file") from None
    except ValueError as error:
        raise RequestError(f"{path} is not whole JSON ({error}); get a whole copy") from None
    if not isinstance(document, dict):
        raise RequestError(f"{path}: expected an object, got {type(document).__name__}; get the model's own file")
    return document


def read_folder_config(folder: Path, warn: Warn) -> ModelConfig:
    """Return the architecture of a Hugging Face folder, without reading weights.

    Raises:
        RequestError: see `read_folder`.
    """
    try:
        return read_config(read_document(folder), warn)
    except RequestError as error:
        message = str(error)
        raise RequestError(message if str(folder) in message else f"{folder / CONFIG_NAME}: {message}") from None


def read_folder(folder: Path, warn: Warn) -> Reading:
    """Read a Hugging Face folder.

    Args:
        folder: It has a config.json and safetensors; a tokenizer's files are optional.
        warn: Called with one message if config.json has fields that no table knows.

    Raises:
        RequestError: an architecture that jaxgpt does not have, keys that are missing, surplus or misshapen, a
            damaged file, or pickles.
    """
    config = read_folder_config(folder, warn)
    architecture = architecture_of(read_document(folder))
    tensors, note = _checked_tensors(folder, config, architecture.keys)
    leaves: dict[str, np.ndarray] = {}
    for key, parts in expected_keys(architecture.keys, config).items():
        leaves |= split(parts, tensors[key].read())
    params = nested({path: jnp.array(leaf) for path, leaf in leaves.items()})  # copied: the file may be mapped
    words = [f"Hugging Face {architecture.name} folder", f"{len(tensors)} keys", dtype_words(tensors.values()), note]
    return Reading(config, params, read_tokenizer(folder, warn), ", ".join(filter(None, words)))


def _checked_tensors(folder: Path, config: ModelConfig, layout: KeyLayout) -> tuple[dict[str, Tensor], str]:
    """Return {the layout's key: array} of exactly the keys that hold parameters, and a note on their spelling."""
    stored = open_tensors(folder)
    spelt = spelling(stored, layout.base)
    tensors = {key: stored[own] for key, own in spelt.keys.items()}
    expected = expected_keys(layout, config)
    ignored = tensors.keys() & buffer_keys(layout, config)
    if config.tied_head and HEAD_KEY in tensors:
        _check_tied(folder, tensors, layout)
        ignored |= {HEAD_KEY}
    tensors = {key: tensor for key, tensor in tensors.items() if key not in ignored}
    wrong = _differences(tensors, expected)
    if wrong:
        raise RequestError(f"{folder} does not hold the model of its {CONFIG_NAME}: {wrong}; correct one of the two")
    return tensors, spelt.note


def _check_tied(folder: Path, tensors: Mapping[str, Tensor], layout: KeyLayout) -> None:
    """A tied head may be stored a second time, but only as what it is."""
    head, embedding = tensors[HEAD_KEY], tensors.get(layout.embedding_key)
    if embedding is not None and not (
        head.shape == embedding.shape and np.array_equal(head.read(), embedding.read())
    ):
        raise RequestError(
            f"{folder}: {HEAD_KEY} differs from {layout.embedding_key}, but tie_word_embeddings is true in "
            f"{CONFIG_NAME}; set it to false to keep both, or remove {HEAD_KEY}"
        )


def _differences(tensors: Mapping[str, Tensor], expected: Mapping[str, list[Part]]) -> str:
    got = {key: (tensor.dtype, tensor.shape) for key, tensor in tensors.items()}
    wanted = {
        key: (got[key][0] if key in got else "float32", expected_shape(parts)) for key, parts in expected.items()
    }
    return differences(got, wanted)


def check_new_folder(path: Path) -> None:
    """Refuse a path that holds something.

    Raises:
        RequestError: it is a file, or a folder with something in it.
    """
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise RequestError(f"{path} exists already; name a folder that is new or empty")


def export(
    path: str | Path, config: ModelConfig, params: Mapping[str, Any], tokenizer: Tokenizer | None, *, warn: Warn
) -> str:
    """Write a folder that transformers opens, and return what was written, in words.

    The folder appears whole or not at all. Interleaved rotary pairs are reordered into halves, which is the same
    model; everything else keeps its bits.

    Args:
        path: A folder that is new or empty.
        config: The architecture; its vocab_size is set.
        params: The tree that `config` describes.
        tokenizer: Its files are written too; None writes none.
        warn: Called with one message for each thing that a Hugging Face folder has no place for.

    Raises:
        RequestError: something lies at `path`, no layout holds the architecture, or the tree is not its own.
        WorkError: the disk refused.

    Example:
        >>> import tempfile
        >>> from jaxgpt.model.parameters import init
        >>> import jax
        >>> config = ModelConfig(vocab_size=5, context_length=4, width=4, layers=1, heads=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     words = export(f"{folder}/hf", config, init(config, key=jax.random.key(0)), None, warn=print)
        ...     reading = read_folder(Path(folder, "hf"), print)
        >>> reading.config == config, reading.source
        (True, 'Hugging Face gpt2 folder, 16 keys, float32')
    """
    path = Path(path)
    check_new_folder(path)
    check_parameters(config, params)
    config, params = halved(config, params)
    architecture, document = write_config(config, warn)
    leaves = named_leaves(params)
    arrays = {key: join(parts, leaves) for key, parts in expected_keys(architecture.keys, config).items()}
    document |= {"dtype": "float32", **special_id_fields(tokenizer)}
    texts = {} if tokenizer is None else tokenizer_files(tokenizer)
    if tokenizer is not None and not texts:
        warn("the tokenizer is left out: its kind has no file that transformers reads")
    _write_whole(path, arrays, {CONFIG_NAME: json.dumps(document, indent=2, sort_keys=True) + "\n", **texts})
    scalars = sum(array.size for array in arrays.values())
    return f"{path}: Hugging Face {architecture.name} folder, {len(arrays)} keys, {scalars:,} parameters, float32"


def _write_whole(path: Path, arrays: dict[str, np.ndarray], texts: Mapping[str, str]) -> None:
    """Write the arrays and {file name: text} beside `path`, then rename."""
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.mkdir(parents=True)
        for name, text in texts.items():
            (temporary / name).write_text(text, encoding="utf-8", newline="")
        save_file(arrays, temporary / FILE_NAME, metadata={"format": "pt"})
        shutil.copymode(
            temporary / CONFIG_NAME, temporary / FILE_NAME
        )  # the library makes it readable to its owner only
        temporary.rename(path)
    except (OSError, SafetensorError) as error:
        raise WorkError(f"cannot write {path}: {error}; make room, or name another folder") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
