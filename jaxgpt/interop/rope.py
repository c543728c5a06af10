"""Rotary positions in `config.json`: `rope_theta` and `rope_scaling` (transformers 4), `rope_parameters` (5)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from jaxgpt.config import ModelConfig, RequestError, nearest

# {rope_type: {their field: ours}}; what the type computes with
_KINDS: dict[str, dict[str, str]] = {
    "default": {},
    "linear": {"factor": "rope_factor"},
    "llama3": {
        "factor": "rope_factor",
        "original_max_position_embeddings": "rope_original_context",
        "low_freq_factor": "rope_low_rotations",
        "high_freq_factor": "rope_high_rotations",
    },
    "yarn": {
        "factor": "rope_factor",
        "original_max_position_embeddings": "rope_original_context",
        "beta_slow": "rope_low_rotations",
        "beta_fast": "rope_high_rotations",
        "attention_factor": "rope_attention_factor",
    },
}
_MAY_BE_ABSENT = {"beta_slow", "beta_fast", "attention_factor"}  # transformers and the architecture have one default
_WITHOUT_EFFECT = {"rope_type", "type", "rope_theta", "finetuned"}
_DEFAULT_THETA = 10000.0


class Rope:
    """The rotary fields of the architecture, as an entry of a config table (see `fields`)."""

    theirs = ("rope_theta", "rope_scaling", "rope_parameters")
    ours = (
        "position", "rope_pairing", "rope_theta", "rope_scaling", "rope_factor", "rope_original_context",
        "rope_low_rotations", "rope_high_rotations", "rope_attention_factor",
    )  # fmt: skip

    def read(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return our fields.

        Raises:
            RequestError: a kind of scaling, or a field of one, that the architecture does not have; places that
                contradict each other.
        """
        name, given = _given(document)
        kind = given.get("rope_type", given.get("type", "default"))
        if kind not in _KINDS:
            close = nearest(kind, _KINDS) if isinstance(kind, str) else ""
            raise RequestError(f"{name} of type {kind!r}{close}: jaxgpt has {', '.join(_KINDS)}; use another model")
        given = _of_yarn(given, document) if kind == "yarn" else given
        table = _KINDS[kind]
        _check_names(name, kind, given, table)
        fields = {ours: given[theirs] for theirs, ours in table.items() if theirs in given}
        scaling = {} if kind == "default" else {"rope_scaling": kind}
        return {"position": "rope", "rope_theta": _theta(document, given), **scaling, **fields}

    def write(self, config: ModelConfig) -> dict[str, Any]:
        """Return their fields, in the form that both transformers 4 and 5 read."""
        scaling = None
        if config.rope_scaling is not None:
            own = {"rope_high_rotations": config.rotations_left_alone}
            values = {
                theirs: own.get(ours, getattr(config, ours)) for theirs, ours in _KINDS[config.rope_scaling].items()
            }
            scaling = {"rope_type": config.rope_scaling, **{k: v for k, v in values.items() if v is not None}}
        return {"rope_theta": config.rope_theta, "rope_scaling": scaling}

    def misfits(self, config: ModelConfig) -> list[str]:
        """Return our fields whose values this entry cannot write; interleaved pairs are reordered before."""
        return [] if config.position == "rope" else ["position"]


def _given(document: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name and the content of the one field that describes the rotation."""
    found = {name: document[name] for name in ("rope_parameters", "rope_scaling") if document.get(name)}
    for name, value in found.items():
        if not isinstance(value, Mapping):
            raise RequestError(f"{name}: expected an object or null, got {value!r}; correct it")
        if any(isinstance(entry, Mapping) for entry in value.values()):
            raise RequestError(f"{name} differs between layers; jaxgpt rotates every layer alike, use another model")
    if len(found) == 2:
        raise RequestError("rope_parameters and rope_scaling are both given; remove the one that does not hold")
    for name, value in found.items():
        return name, {field: entry for field, entry in value.items() if entry is not None}
    return "rope_parameters", {}


def _of_yarn(given: dict[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """Settle what transformers derives from other fields under yarn."""
    scales = [given.pop(name, None) for name in ("mscale", "mscale_all_dim")]
    if all(scales):
        one, all_dim = (_yarn_amplitude(given.get("factor"), scale) for scale in scales)
        given.setdefault("attention_factor", one / all_dim)
    if given.get("truncate") is True:
        del given["truncate"]  # what the architecture does
    return {"original_max_position_embeddings": document.get("max_position_embeddings")} | given


def _yarn_amplitude(factor: Any, scale: Any) -> float:
    try:
        return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1
    except TypeError:
        raise RequestError(
            f"yarn: expected numbers, got factor {factor!r} and mscale {scale!r}; correct them"
        ) from None


def _check_names(name: str, kind: str, given: Mapping[str, Any], table: Mapping[str, str]) -> None:
    known = {"partial_rotary_factor"} if given.get("partial_rotary_factor") == 1 else set()
    known |= table.keys() | _WITHOUT_EFFECT
    unknown = [field for field in given if field not in known]
    missing = [field for field in table if field not in given and field not in _MAY_BE_ABSENT]
    if unknown or missing:
        listed = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has {', '.join(unknown)}"] * bool(unknown)
        raise RequestError(
            f"{name} of type {kind} {' and '.join(listed)}; jaxgpt computes it from "
            f"{', '.join(['rope_theta', *table])}: correct it, or use another model"
        )


def _theta(document: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    places = [place["rope_theta"] for place in (given, document) if place.get("rope_theta") is not None]
    if len(places) == 2 and places[0] != places[1]:
        raise RequestError(
            f"rope_theta is {places[1]} beside rope_parameters and {places[0]} within; keep one of them"
        )
    return places[0] if places else _DEFAULT_THETA
