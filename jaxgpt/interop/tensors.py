"""The arrays of a Hugging Face folder: one safetensors file, or the shards that an index lists."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes  # noqa: F401  gives numpy the name bfloat16, which safetensors asks it for
import numpy as np
from safetensors import SafetensorError, safe_open

from jaxgpt.config import RequestError, some

FILE_NAME = "model.safetensors"
INDEX_NAME = "model.safetensors.index.json"
_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".bin.index.json")
_POINTER = b"version https://git-lfs"


class Tensor(NamedTuple):
    """An array that has not been read yet."""

    key: str
    shape: tuple[int, ...]
    dtype: str
    file: Any

    def read(self) -> np.ndarray:
        """Return the array as float32."""
        return np.asarray(self.file.get_tensor(self.key), np.float32)


def refuse_pickle(name: str) -> RequestError:
    """Return the refusal of a file that would have to be unpickled."""
    return RequestError(
        f"{name} is a pickle, which can run any code when it is read, so it is not; convert the model to safetensors "
        "(in transformers: model.save_pretrained(FOLDER))"
    )


def open_tensors(folder: Path) -> dict[str, Tensor]:
    """Return {key: array that can be read} of a folder.

    Raises:
        RequestError: no weights, weights in pickles, a file that is damaged, an index that does not fit its shards,
            or arrays that are no float32, float16 or bfloat16.
    """
    if (folder / FILE_NAME).exists():
        tensors = _open(folder / FILE_NAME)
    elif (folder / INDEX_NAME).exists():
        tensors = _open_shards(folder / INDEX_NAME)
    else:
        raise _no_weights(folder)
    odd = sorted(f"{key} {tensor.dtype}" for key, tensor in tensors.items() if tensor.dtype not in _DTYPES.values())
    if odd:
        raise RequestError(
            f"{folder} has arrays that are no {', '.join(_DTYPES.values())}: {some(odd)}; convert them first"
        )
    return tensors


def dtype_words(tensors: Iterable[Tensor]) -> str:
    """Return the dtypes in words."""
    return " and ".join(sorted({tensor.dtype for tensor in tensors}))


def _open(path: Path) -> dict[str, Tensor]:
    try:
        with path.open("rb") as opened:
            is_pointer = opened.read(len(_POINTER)) == _POINTER
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror}; put the file there, or check the path") from None
    if is_pointer:
        raise RequestError(f"{path} is a Git LFS pointer, not the file itself; fetch it with git lfs pull")
    try:
        file = safe_open(path, framework="np")
    except SafetensorError as error:
        raise RequestError(
            f"{path} ({path.stat().st_size} bytes) is cut off, damaged or no safetensors file: {error}; "
            "get a whole copy"
        ) from None
    slices = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118  the handle is no mapping
    return {
        key: Tensor(key, tuple(each.get_shape()), _DTYPES.get(each.get_dtype(), each.get_dtype()), file)
        for key, each in slices.items()
    }


def _open_shards(index: Path) -> dict[str, Tensor]:
    try:
        weight_map = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        wanted = {key: str(name) for key, name in weight_map.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RequestError(f"cannot read {index}: expected JSON with an object weight_map ({error})") from None
    outside = sorted({name for name in wanted.values() if Path(name).name != name})
    if outside:
        raise RequestError(f"{index} names {some(outside)}; expected files of the same folder, correct the index")
    tensors: dict[str, Tensor] = {}
    for name in sorted(set(wanted.values())):
        shard = _open(index.parent / name)
        listed = {key for key, file in wanted.items() if file == name}
        if shard.keys() != listed:
            raise RequestError(
                f"{name} does not hold what {index.name} lists for it: {some(sorted(shard.keys() ^ listed))}; get "
                "whole copies of both"
            )
        tensors |= shard
    return tensors


def _no_weights(folder: Path) -> RequestError:
    held = sorted(entry.name for entry in folder.iterdir())
    pickles = [name for name in held if name.endswith(_PICKLES)]
    if pickles:
        return refuse_pickle(str(folder / pickles[0]))
    return RequestError(f"{folder} has no {FILE_NAME}; it holds {some(held)}: get the file with the weights")
