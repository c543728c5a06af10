"""Which key of a file holds which parameters, and in what form: one table per layout, read in both directions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from jaxgpt.config import ModelConfig
from jaxgpt.model.specs import ParamSpec, parameter_specs, walk

from .arrays import from_stored, stored_shape, to_stored

Table = Mapping[str, Mapping[str, str]]  # {key: {tree path: form}}; several paths lie side by side on the last axis
HEAD_KEY = "lm_head.weight"  # the same in every layout, and outside the base model
WRAPPERS = ("_orig_mod.", "module.")  # what torch.compile and DistributedDataParallel put before every key


class KeyLayout(NamedTuple):
    """The keys of one layout.

    Attributes:
        base: What precedes every key but the head's; files saved from the base model alone leave it out.
        table: {key: {tree path: form}}, `{i}` standing for the number of the block.
        buffers: Keys that hold no parameter (masks, rotary frequencies), written by older versions.
    """

    base: str
    table: Table
    buffers: tuple[str, ...]

    @property
    def embedding_key(self) -> str:
        """The key of the token embedding, which a tied head repeats."""
        return next(key for key, parts in self.table.items() if "token_embedding" in parts)


GPT2_KEYS = KeyLayout(
    base="transformer.",
    table={
        "transformer.wte.weight": {"token_embedding": "V C"},
        "transformer.wpe.weight": {"position_embedding": "T C"},
        "transformer.h.{i}.ln_1.weight": {"blocks_{i}/ln1/scale": "C"},
        "transformer.h.{i}.ln_1.bias": {"blocks_{i}/ln1/bias": "C"},
        # Conv1D: [inputs, outputs], as in the tree
        "transformer.h.{i}.attn.c_attn.weight": {
            "blocks_{i}/attention/q/kernel": "C HD",
            "blocks_{i}/attention/k/kernel": "C KD",
            "blocks_{i}/attention/v/kernel": "C KD",
        },
        "transformer.h.{i}.attn.c_attn.bias": {
            "blocks_{i}/attention/q/bias": "HD",
            "blocks_{i}/attention/k/bias": "KD",
            "blocks_{i}/attention/v/bias": "KD",
        },
        "transformer.h.{i}.attn.c_proj.weight": {"blocks_{i}/attention/out/kernel": "HD C"},
        "transformer.h.{i}.attn.c_proj.bias": {"blocks_{i}/attention/out/bias": "C"},
        "transformer.h.{i}.ln_2.weight": {"blocks_{i}/ln2/scale": "C"},
        "transformer.h.{i}.ln_2.bias": {"blocks_{i}/ln2/bias": "C"},
        "transformer.h.{i}.mlp.c_fc.weight": {"blocks_{i}/ffn/up/kernel": "C F"},
        "transformer.h.{i}.mlp.c_fc.bias": {"blocks_{i}/ffn/up/bias": "F"},
        "transformer.h.{i}.mlp.c_proj.weight": {"blocks_{i}/ffn/down/kernel": "F C"},
        "transformer.h.{i}.mlp.c_proj.bias": {"blocks_{i}/ffn/down/bias": "C"},
        "transformer.ln_f.weight": {"final_norm/scale": "C"},
        "transformer.ln_f.bias": {"final_norm/bias": "C"},
        HEAD_KEY: {"lm_head/kernel": "V C"},
    },
    buffers=("transformer.h.{i}.attn.bias", "transformer.h.{i}.attn.masked_bias"),
)

LLAMA_KEYS = KeyLayout(
    base="model.",
    table={
        "model.embed_tokens.weight": {"token_embedding": "V C"},
        "model.layers.{i}.input_layernorm.weight": {"blocks_{i}/ln1/scale": "C"},
        # Linear: [outputs, inputs], the tree's turned
        "model.layers.{i}.self_attn.q_proj.weight": {"blocks_{i}/attention/q/kernel": "HD C"},
        "model.layers.{i}.self_attn.q_proj.bias": {"blocks_{i}/attention/q/bias": "HD"},
        "model.layers.{i}.self_attn.k_proj.weight": {"blocks_{i}/attention/k/kernel": "KD C"},
        "model.layers.{i}.self_attn.k_proj.bias": {"blocks_{i}/attention/k/bias": "KD"},
        "model.layers.{i}.self_attn.v_proj.weight": {"blocks_{i}/attention/v/kernel": "KD C"},
        "model.layers.{i}.self_attn.v_proj.bias": {"blocks_{i}/attention/v/bias": "KD"},
        "model.layers.{i}.self_attn.q_norm.weight": {"blocks_{i}/attention/q_norm/scale": "D"},
        "model.layers.{i}.self_attn.k_norm.weight": {"blocks_{i}/attention/k_norm/scale": "D"},
        "model.layers.{i}.self_attn.o_proj.weight": {"blocks_{i}/attention/out/kernel": "C HD"},
        "model.layers.{i}.self_attn.o_proj.bias": {"blocks_{i}/attention/out/bias": "C"},
        "model.layers.{i}.post_attention_layernorm.weight": {"blocks_{i}/ln2/scale": "C"},
        "model.layers.{i}.mlp.gate_proj.weight": {"blocks_{i}/ffn/gate/kernel": "F C"},
        "model.layers.{i}.mlp.gate_proj.bias": {"blocks_{i}/ffn/gate/bias": "F"},
        "model.layers.{i}.mlp.up_proj.weight": {"blocks_{i}/ffn/up/kernel": "F C"},
        "model.layers.{i}.mlp.up_proj.bias": {"blocks_{i}/ffn/up/bias": "F"},
        "model.layers.{i}.mlp.down_proj.weight": {"blocks_{i}/ffn/down/kernel": "C F"},
        "model.layers.{i}.mlp.down_proj.bias": {"blocks_{i}/ffn/down/bias": "C"},
        "model.norm.weight": {"final_norm/scale": "C"},
        HEAD_KEY: {"lm_head/kernel": "V C"},
    },
    buffers=("model.layers.{i}.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq"),
)


class Part(NamedTuple):
    """One parameter's share of a stored array."""

    path: str
    spec: ParamSpec
    form: str


def _per_block(name: str, layers: int) -> list[tuple[str, str]]:
    """[(what stands for `{i}`, the name with it)], one pair per block, or one pair alone without `{i}`."""
    numbers = [str(i) for i in range(layers)] if "{i}" in name else [""]
    return [(number, name.replace("{i}", number)) for number in numbers]


def expected_keys(layout: KeyLayout, config: ModelConfig) -> dict[str, list[Part]]:
    """Return {key: its parts} of the keys that a file of this architecture has.

    Example:
        >>> keys = expected_keys(GPT2_KEYS, ModelConfig.preset("gpt2"))
        >>> [part.path for part in keys["transformer.h.3.ln_2.bias"]]
        ['blocks_3/ln2/bias']
        >>> HEAD_KEY in keys  # tied
        False
    """
    specs = dict(walk(parameter_specs(config)))
    keys = {}
    for pattern, forms in layout.table.items():
        for number, key in _per_block(pattern, config.layers):
            paths = {path.replace("{i}", number): form for path, form in forms.items()}
            if paths.keys() <= specs.keys():
                keys[key] = [Part(path, specs[path], form) for path, form in paths.items()]
    return keys


def buffer_keys(layout: KeyLayout, config: ModelConfig) -> set[str]:
    """Return the keys that may be there and hold no parameter."""
    return {key for pattern in layout.buffers for _, key in _per_block(pattern, config.layers)}


def expected_shape(parts: list[Part]) -> tuple[int, ...]:
    """Return the shape of the stored array that holds `parts`."""
    shapes = [stored_shape(part.spec, part.form) for part in parts]
    return (*shapes[0][:-1], sum(shape[-1] for shape in shapes))


def join(parts: list[Part], leaves: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the stored array of `parts`, from {tree path: array}."""
    stored = [to_stored(np.asarray(leaves[part.path], np.float32), part.spec, part.form) for part in parts]
    return np.ascontiguousarray(np.concatenate(stored, axis=-1))


def split(parts: list[Part], stored: np.ndarray) -> dict[str, np.ndarray]:
    """Return {tree path: array} of a stored array: the inverse of `join`."""
    ends = np.cumsum([stored_shape(part.spec, part.form)[-1] for part in parts])
    pieces = np.split(stored, ends[:-1], axis=-1)
    return {part.path: from_stored(piece, part.spec, part.form) for part, piece in zip(parts, pieces, strict=True)}


class Spelling(NamedTuple):
    """How a file spells its keys.

    Attributes:
        keys: {the layout's key: the file's}.
        note: What differs from the layout's spelling, in words; empty where nothing does.
    """

    keys: dict[str, str]
    note: str


def spelling(keys: Iterable[str], base: str) -> Spelling:
    """Return how a file spells the layout's keys: with wrappers before all of them, with or without the base.

    >>> spelling(["_orig_mod.h.0.ln_1.bias", "_orig_mod.lm_head.weight"], "transformer.").keys
    {'transformer.h.0.ln_1.bias': '_orig_mod.h.0.ln_1.bias', 'lm_head.weight': '_orig_mod.lm_head.weight'}
    """
    names = list(keys)
    wrapper = ""
    while found := [w for w in WRAPPERS if names and all(name.startswith(wrapper + w) for name in names)]:
        wrapper += found[0]
    bare = {name.removeprefix(wrapper): name for name in names}
    lacks_base = not any(name.startswith(base) for name in bare)
    if lacks_base:
        bare = {name if name == HEAD_KEY else base + name: own for name, own in bare.items()}
    notes = [f"prefix {wrapper} stripped"] if wrapper else []
    notes += [f"keys without the prefix {base}"] if lacks_base else []
    return Spelling(bare, ", ".join(notes))
