"""The architectures of Hugging Face folders as tables: their `config.json` against ours, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxgpt.config import ModelConfig, RequestError, nearest
from jaxgpt.runs.saved import Warn

from .fields import REQUIRED, Always, Choice, Divides, Document, Entry, LayerWindows, Same
from .keys import GPT2_KEYS, LLAMA_KEYS, KeyLayout
from .other_fields import FIXED, WITHOUT_EFFECT
from .rope import Rope


class Architecture(NamedTuple):
    """One `model_type`.

    Attributes:
        name: The `model_type`.
        classname: The transformers class that reads it.
        keys: Its keys in files of weights.
        entries: Its config table.
        fixed: {a field of theirs that we do not have: the value under which it changes nothing}.
        lost: Fields of ours that only training uses and `config.json` has no place for.
    """

    name: str
    classname: str
    keys: KeyLayout
    entries: tuple[Entry, ...]
    fixed: Mapping[str, Any]
    lost: tuple[str, ...] = ()


_EVERYWHERE = Always(
    {
        "family": "decoder",
        "encoder_layers": None,
        "head_bias": False,
        "logit_soft_cap": None,
    }
)

_GPT2 = Architecture(
    name="gpt2",
    classname="GPT2LMHeadModel",
    keys=GPT2_KEYS,
    entries=(
        _EVERYWHERE,
        Same("vocab_size", "vocab_size"),
        Same("n_positions", "context_length"),
        Same("n_embd", "width"),
        Same("n_layer", "layers"),
        Same("n_head", "heads"),
        Same("n_inner", "ffn_width", default=None),
        Choice(
            "activation_function",
            {
                "gelu_new": {"ffn": "gelu", "gelu": "tanh"},
                "gelu_pytorch_tanh": {"ffn": "gelu", "gelu": "tanh"},
                "gelu": {"ffn": "gelu", "gelu": "exact"},
                "relu": {"ffn": "relu"},
            },
            default="gelu_new",
        ),
        Same("layer_norm_epsilon", "norm_epsilon", default=1e-5),
        Same("embd_pdrop", "embedding_dropout", default=0.1),
        Same("attn_pdrop", "attention_dropout", default=0.1),
        Same("resid_pdrop", "residual_dropout", default=0.1),
        Same("tie_word_embeddings", "tied_head", default=True),
        Always(
            {
                "position": "learned",
                "norm": "layernorm",
                "kv_heads": None,
                "head_size": None,
                "window": None,
                "qk_norm": False,
                "attention_bias": True,
                "attention_out_bias": True,
                "ffn_bias": True,
                "norm_bias": True,
            }
        ),
    ),
    fixed={
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "reorder_and_upcast_attn": False,
    },
)

# What every descendant of Llama shares
_LLAMA_SIZES = (
    _EVERYWHERE,
    Same("vocab_size", "vocab_size"),
    Same("max_position_embeddings", "context_length"),
    Same("hidden_size", "width"),
    Same("num_hidden_layers", "layers"),
    Same("num_attention_heads", "heads"),
    Same("intermediate_size", "ffn_width", settled="hidden_width"),
    Choice(
        "hidden_act",
        {
            "silu": {"ffn": "swiglu"},
            "gelu": {"ffn": "geglu", "gelu": "exact"},
            "gelu_pytorch_tanh": {"ffn": "geglu", "gelu": "tanh"},
            "gelu_new": {"ffn": "geglu", "gelu": "tanh"},
        },
        default="silu",
    ),
    Same("rms_norm_eps", "norm_epsilon", default=1e-6),
    Rope(),
    Same("attention_dropout", "attention_dropout", default=0.0),
    Same("tie_word_embeddings", "tied_head", default=False),
    Always({"norm": "rmsnorm", "norm_bias": False}),
)
_LLAMA_LOST = ("embedding_dropout", "residual_dropout")
_BIASES_OF_ATTENTION = Choice(
    "attention_bias",
    {
        False: {"attention_bias": False, "attention_out_bias": False},
        True: {"attention_bias": True, "attention_out_bias": True},
    },
    default=False,
)


def _kv_heads(default: Any) -> Same:
    return Same("num_key_value_heads", "kv_heads", default=default, settled="key_value_heads")


def _head_size(default: Any) -> Same:
    return Same("head_dim", "head_size", default=default, settled="head_width")


_LLAMA = Architecture(
    name="llama",
    classname="LlamaForCausalLM",
    keys=LLAMA_KEYS,
    entries=(
        *_LLAMA_SIZES,
        _kv_heads(None),
        _head_size(None),
        Divides(),
        _BIASES_OF_ATTENTION,
        Same("mlp_bias", "ffn_bias", default=False),
        Always({"qk_norm": False, "window": None}),
    ),
    fixed={"pretraining_tp": 1, "layer_types": None, "sliding_window": None},
    lost=_LLAMA_LOST,
)

_MISTRAL = Architecture(
    name="mistral",
    classname="MistralForCausalLM",
    keys=LLAMA_KEYS,
    entries=(
        *_LLAMA_SIZES,
        _kv_heads(REQUIRED),
        _head_size(None),
        Same("sliding_window", "window", default=4096),
        Always({"qk_norm": False, "attention_bias": False, "attention_out_bias": False, "ffn_bias": False}),
    ),
    fixed={"layer_types": None, "attention_bias": False, "mlp_bias": False},
    lost=_LLAMA_LOST,
)

_QWEN2 = Architecture(
    name="qwen2",
    classname="Qwen2ForCausalLM",
    keys=LLAMA_KEYS,
    entries=(
        *_LLAMA_SIZES,
        _kv_heads(REQUIRED),
        _head_size(None),
        LayerWindows(),
        Always({"qk_norm": False, "attention_bias": True, "attention_out_bias": False, "ffn_bias": False}),
    ),
    fixed={"use_mrope": False, "attention_bias": True, "mlp_bias": False},
    lost=_LLAMA_LOST,
)

_QWEN3 = Architecture(
    name="qwen3",
    classname="Qwen3ForCausalLM",
    keys=LLAMA_KEYS,
    entries=(
        *_LLAMA_SIZES,
        _kv_heads(REQUIRED),
        _head_size(REQUIRED),
        LayerWindows(),
        _BIASES_OF_ATTENTION,
        Always({"qk_norm": True, "ffn_bias": False}),
    ),
    fixed={"use_mrope": False, "mlp_bias": False},
    lost=_LLAMA_LOST,
)

ARCHITECTURES = {each.name: each for each in (_GPT2, _LLAMA, _MISTRAL, _QWEN2, _QWEN3)}


def architecture_of(document: Document) -> Architecture:
    """Return the architecture that a `config.json` names.

    Raises:
        RequestError: no model_type, or one that is not among the tables.
    """
    name, known = document.get("model_type"), ", ".join(ARCHITECTURES)
    if name is None:
        raise RequestError(f"model_type is missing; add the one that the weights have, of {known}")
    if name not in list(ARCHITECTURES):
        close = nearest(str(name), ARCHITECTURES)
        raise RequestError(f"model_type {name!r} is not one that jaxgpt reads{close} ({known}); use another model")
    return ARCHITECTURES[name]


def read_config(document: Document, warn: Warn) -> ModelConfig:
    """Return the architecture that a `config.json` describes.

    Args:
        document: The parsed file.
        warn: Called with one message if there are fields that are not known to any table.

    Raises:
        RequestError: a needed field is missing, or a field asks for a computation that jaxgpt does not have.

    Example:
        >>> gpt2 = {"model_type": "gpt2", "vocab_size": 5, "n_positions": 8, "n_embd": 4, "n_layer": 1, "n_head": 2}
        >>> read_config(gpt2, print).gelu
        'tanh'
    """
    architecture = architecture_of(document)
    _check_fixed(document, architecture)
    fields: dict[str, Any] = {}
    for entry in architecture.entries:
        fields |= entry.read(document)
    config = without_redundancy(ModelConfig(**fields))
    unknown = _unknown(document, architecture)
    if unknown:
        warn(
            f"config.json has fields that {architecture.name} does not have, they are not used: {', '.join(unknown)}"
        )
    return config


def _check_fixed(document: Document, architecture: Architecture) -> None:
    for name, value in {**FIXED, **architecture.fixed}.items():
        if document.get(name) not in (None, value):
            raise RequestError(
                f"{name} is {document[name]!r}, which changes the computation; jaxgpt reads {architecture.name} only "
                f"with {name} {value!r}: use another model"
            )


def _unknown(document: Document, architecture: Architecture) -> list[str]:
    known = WITHOUT_EFFECT | FIXED.keys() | architecture.fixed.keys()
    known |= {name for entry in architecture.entries for name in entry.theirs}
    return [name for name in document if name not in known]


def without_redundancy(config: ModelConfig) -> ModelConfig:
    """Return the same architecture with every field that repeats its derived value left at none.

    So one architecture has one description, whichever file or command it came from.
    """
    derived = {
        "kv_heads": config.heads,
        "head_size": config.width // config.heads if config.width % config.heads == 0 else None,
        "ffn_width": 4 * config.width,
        "rope_high_rotations": 4.0 if config.rope_scaling == "llama3" else 32.0,
    }
    same = {name: None for name, value in derived.items() if getattr(config, name) == value}
    return config.replace(**same)


def write_config(config: ModelConfig, warn: Warn) -> tuple[Architecture, dict[str, Any]]:
    """Return the architecture that holds a config, and its `config.json` without provenance.

    Args:
        config: The architecture.
        warn: Called with one message if fields that only training uses are lost.

    Raises:
        RequestError: none of the tables holds it; the message names the fields that the nearest one lacks.

    Example:
        >>> architecture, document = write_config(ModelConfig.preset("gpt2"), print)
        >>> architecture.name, document["n_embd"], document["activation_function"]
        ('gpt2', 768, 'gelu_new')
    """
    config = without_redundancy(config)
    misfits = {
        each.name: [name for entry in each.entries for name in entry.misfits(config)]
        for each in ARCHITECTURES.values()
    }
    name = min(misfits, key=lambda name: len(misfits[name]))
    if misfits[name]:
        listed = ", ".join(f"model.{field} {getattr(config, field)}".lower() for field in misfits[name])
        raise RequestError(
            f"no Hugging Face layout holds this architecture; the nearest, {name}, cannot express {listed}"
        )
    architecture = ARCHITECTURES[name]
    lost = [f"model.{field} {getattr(config, field):g}" for field in architecture.lost if getattr(config, field)]
    if lost:
        warn(f"{name} has no field for {', '.join(lost)}; only training uses it")
    document: dict[str, Any] = {"model_type": name, "architectures": [architecture.classname]}
    for entry in architecture.entries:
        document |= entry.write(config)
    return architecture, document
