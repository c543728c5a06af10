"""Checkpoints of llama2.c (github.com/karpathy/llama2.c), version 0: seven numbers, then every array in float32."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from jaxgpt.config import ModelConfig, RequestError
from jaxgpt.model.specs import parameter_specs, walk
from jaxgpt.runs.trees import nested

from .architectures import without_redundancy
from .arrays import from_stored, stored_shape
from .hugging_face import Reading
from .pairing import halved

_HEADER = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "max_seq_len")
_HEADER_BYTES = 4 * len(_HEADER)
_LATER_VERSIONS = b"24ka"  # how the files of versions 1 and 2 begin
_TABLES = "cosines and sines"  # of the rotation, which follow from the sizes: llama2.c itself skips them
# The arrays in their order; those with `{i}` lie one block after another.
_ARRAYS = (
    ("token_embedding", "V C"),
    ("blocks_{i}/ln1/scale", "C"),
    ("blocks_{i}/attention/q/kernel", "HD C"),
    ("blocks_{i}/attention/k/kernel", "KD C"),
    ("blocks_{i}/attention/v/kernel", "KD C"),
    ("blocks_{i}/attention/out/kernel", "C HD"),
    ("blocks_{i}/ln2/scale", "C"),
    ("blocks_{i}/ffn/gate/kernel", "F C"),
    ("blocks_{i}/ffn/down/kernel", "C F"),
    ("blocks_{i}/ffn/up/kernel", "F C"),
    ("final_norm/scale", "C"),
    (_TABLES, ""),
    ("lm_head/kernel", "V C"),  # only where it is not tied
)


def read_file_config(path: Path) -> ModelConfig:
    """Return the architecture of a llama2.c file, after checking its length against it.

    The header does not say theta and epsilon; llama2.c computes with 10000 and 1e-5.

    Raises:
        RequestError: another format or version, or a length that does not fit the header.
    """
    return _stored_config(path).replace(rope_pairing="half")


def _stored_config(path: Path) -> ModelConfig:
    """Return the architecture as the file holds it: with interleaved pairs."""
    numbers, got = _header(path), path.stat().st_size
    sizes = ", ".join(f"{name} {number}" for name, number in numbers.items())
    positive = {**numbers, "vocab_size": abs(numbers["vocab_size"])}
    if min(positive.values()) <= 0 or max(positive.values()) > got or positive["dim"] * positive["vocab_size"] > got:
        raise RequestError(f"{path} is no llama2.c file: it begins with {sizes}, in {got} bytes; check the path")
    try:
        config = _config(numbers)
    except RequestError as error:
        raise RequestError(f"{path} is no llama2.c file, it begins with {sizes}: {error}") from None
    expected = _HEADER_BYTES + 4 * _floats(config)
    if got != expected:
        raise RequestError(
            f"{path} has {got} bytes, but its header ({sizes}) asks for {expected}; it is cut off, damaged or no "
            "llama2.c file: get a whole copy"
        )
    return config


def _header(path: Path) -> dict[str, int]:
    with path.open("rb") as file:
        head = file.read(_HEADER_BYTES)
    if head[:4] == _LATER_VERSIONS:
        raise RequestError(f"{path} is a llama2.c file of a later version; jaxgpt reads version 0, export it as that")
    if len(head) < _HEADER_BYTES:
        raise RequestError(f"{path} has {len(head)} bytes, less than the header of a llama2.c file; check the path")
    return dict(zip(_HEADER, np.frombuffer(head, "<i4").tolist(), strict=True))


def _config(numbers: dict[str, int]) -> ModelConfig:
    return without_redundancy(
        ModelConfig(
            vocab_size=abs(numbers["vocab_size"]),
            context_length=numbers["max_seq_len"],
            width=numbers["dim"],
            layers=numbers["n_layers"],
            heads=numbers["n_heads"],
            kv_heads=numbers["n_kv_heads"],
            ffn="swiglu",
            ffn_width=numbers["hidden_dim"],
            norm="rmsnorm",
            position="rope",
            rope_pairing="interleaved",
            attention_bias=False,
            attention_out_bias=False,
            ffn_bias=False,
            norm_bias=False,
            tied_head=numbers["vocab_size"] > 0,
        )
    )


def _tables(config: ModelConfig) -> int:
    """Floats of the tables of cosines and sines."""
    return 2 * config.context_length * (config.head_width // 2)


def _floats(config: ModelConfig) -> int:
    """Floats behind the header; of one block times the blocks, since a damaged header may ask for millions."""
    one = config.replace(layers=1)
    in_block, elsewhere = (
        sum(spec.size for name, spec in walk(parameter_specs(one)) if name.startswith("blocks_") is inside)
        for inside in (True, False)
    )
    return _tables(config) + config.layers * in_block + elsewhere


def read_file(path: Path) -> Reading:
    """Read a llama2.c file.

    It rotates interleaved pairs; its rows are reordered, so that the parameters are those of the same model's
    Hugging Face folder. Its tokenizer lies in a file of its own and is not read.

    Raises:
        RequestError: see `read_file_config`.
    """
    config = _stored_config(path)
    leaves = _leaves(config, np.fromfile(path, "<f4", offset=_HEADER_BYTES))
    config, params = halved(config, nested({name: jnp.array(leaf) for name, leaf in leaves.items()}))
    return Reading(config, params, None, "llama2.c file, float32")


def _leaves(config: ModelConfig, floats: np.ndarray) -> dict[str, np.ndarray]:
    """Cut the file's floats into parameters."""
    specs = dict(walk(parameter_specs(config)))
    leaves, at = {}, 0
    for name, form in _each_array(config):
        if name == _TABLES:
            at += _tables(config)
        elif name in specs:
            spec = specs[name]
            leaves[name] = from_stored(floats[at : at + spec.size].reshape(stored_shape(spec, form)), spec, form)
            at += spec.size
    return leaves


def _each_array(config: ModelConfig) -> Iterator[tuple[str, str]]:
    for pattern, form in _ARRAYS:
        for i in range(config.layers if "{i}" in pattern else 1):
            yield pattern.replace("{i}", str(i)), form
