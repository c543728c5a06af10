"""The language of the config tables: an entry says which fields of `config.json` are which of the architecture's.

Every entry is read in two directions, `read` from a `config.json` and `write` to one, and names the fields it speaks
for on both sides, so that no field of either is forgotten.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

from jaxgpt.config import ModelConfig, RequestError, nearest

REQUIRED = object()  # no version of transformers agrees with another on what such a field would be where it is absent
Document = Mapping[str, Any]  # a config.json


class Entry(Protocol):
    """One correspondence between their fields and ours."""

    @property
    def theirs(self) -> tuple[str, ...]:
        """Fields of `config.json` that this entry reads."""
        ...

    @property
    def ours(self) -> tuple[str, ...]:
        """Fields of the architecture that this entry sets."""
        ...

    def read(self, document: Document) -> dict[str, Any]:
        """Return our fields; a RequestError names the field of theirs that is refused."""
        ...

    def write(self, config: ModelConfig) -> dict[str, Any]:
        """Return their fields."""
        ...

    def misfits(self, config: ModelConfig) -> list[str]:
        """Return the fields of ours whose values `write` cannot express."""
        ...


def _value(document: Document, name: str, default: Any) -> Any:
    value = document.get(name)
    if value is None and default is REQUIRED:
        raise RequestError(f"{name} is {'null' if name in document else 'missing'}; add it, with the model's number")
    return default if name not in document else value


@dataclasses.dataclass(frozen=True)
class Same:
    """One field of theirs is one of ours.

    Attributes:
        their_name, our_name: The two names.
        default: What transformers takes where the field is absent.
        settled: The property that holds the number where our field may be none; empty for the field itself.
    """

    their_name: str
    our_name: str
    default: Any = REQUIRED
    settled: str = ""

    @property
    def theirs(self) -> tuple[str, ...]:
        return (self.their_name,)

    @property
    def ours(self) -> tuple[str, ...]:
        return (self.our_name,)

    def read(self, document: Document) -> dict[str, Any]:
        return {self.our_name: _value(document, self.their_name, self.default)}

    def write(self, config: ModelConfig) -> dict[str, Any]:
        return {self.their_name: getattr(config, self.settled or self.our_name)}

    def misfits(self, config: ModelConfig) -> list[str]:
        return []


@dataclasses.dataclass(frozen=True)
class Choice:
    """Each value of one field of theirs is a combination of ours.

    Attributes:
        their_name: The field.
        meanings: {their value: {our field: value}}; of several with one meaning the first is written.
        default: What transformers takes where the field is absent.
    """

    their_name: str
    meanings: Mapping[Any, Mapping[str, Any]]
    default: Any

    @property
    def theirs(self) -> tuple[str, ...]:
        return (self.their_name,)

    @property
    def ours(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for meaning in self.meanings.values() for name in meaning))

    def read(self, document: Document) -> dict[str, Any]:
        value = document.get(self.their_name, self.default)
        if value not in list(self.meanings):
            close = nearest(value, map(str, self.meanings)) if isinstance(value, str) else ""
            known = ", ".join(map(str, self.meanings))
            raise RequestError(f"{self.their_name} is {value!r}{close}; jaxgpt has {known}: use another model")
        return dict(self.meanings[value])

    def _written(self, config: ModelConfig) -> list[Any]:
        return [
            value
            for value, meaning in self.meanings.items()
            if all(getattr(config, name) == ours for name, ours in meaning.items())
        ]

    def write(self, config: ModelConfig) -> dict[str, Any]:
        return {self.their_name: self._written(config)[0]}

    def misfits(self, config: ModelConfig) -> list[str]:
        return [] if self._written(config) else [self._nearest_misfit(config)]

    def _nearest_misfit(self, config: ModelConfig) -> str:
        """The first field that differs from the meaning with the fewest differences."""
        differing = [
            [name for name, ours in meaning.items() if getattr(config, name) != ours]
            for meaning in self.meanings.values()
        ]
        return min(differing, key=len)[0]


@dataclasses.dataclass(frozen=True)
class Always:
    """What the layout implies without a field: our fields have these values, or the layout cannot hold them."""

    values: Mapping[str, Any]

    theirs = ()

    @property
    def ours(self) -> tuple[str, ...]:
        return tuple(self.values)

    def read(self, document: Document) -> dict[str, Any]:
        return dict(self.values)

    def write(self, config: ModelConfig) -> dict[str, Any]:
        return {}

    def misfits(self, config: ModelConfig) -> list[str]:
        return [name for name, value in self.values.items() if getattr(config, name) != value]


class Divides:
    """transformers' Llama refuses a width that the heads do not divide, even where heads have a size of their own."""

    theirs = ()
    ours = ()

    def read(self, document: Document) -> dict[str, Any]:
        return {}

    def write(self, config: ModelConfig) -> dict[str, Any]:
        return {}

    def misfits(self, config: ModelConfig) -> list[str]:
        return ["head_size"] if config.width % config.heads else []


class LayerWindows:
    """Qwen's windows, which may differ between layers; ours is one for all."""

    theirs = ("use_sliding_window", "sliding_window", "max_window_layers", "layer_types")
    ours = ("window",)

    def read(self, document: Document) -> dict[str, Any]:
        layers, window = _value(document, "num_hidden_layers", REQUIRED), document.get("sliding_window", 4096)
        uses = document.get("use_sliding_window", False) and window is not None
        name, kinds = self._kinds(document, layers, uses)
        if kinds not in (["full_attention"] * layers, ["sliding_attention"] * layers):
            raise RequestError(
                f"{name} gives the {layers} layers different attention ({kinds}); jaxgpt has one window for all "
                "layers, or none: use another model"
            )
        if kinds[0] == "full_attention":
            return {"window": None}
        if not uses:
            raise RequestError("layer_types has sliding_attention, but use_sliding_window is false; correct one")
        return {"window": window}

    def _kinds(self, document: Document, layers: Any, uses: bool) -> tuple[str, Any]:
        """Return the field that decides, and the kind of attention of each layer."""
        if document.get("layer_types") is not None:
            return "layer_types", document["layer_types"]
        first = document.get("max_window_layers", 28)
        for name, number in (("num_hidden_layers", layers), ("max_window_layers", first)):
            if type(number) is not int:
                raise RequestError(f"{name}: expected a whole number, got {number!r}; correct it")
        full = min(first, layers) if uses else layers
        return "max_window_layers", ["full_attention"] * full + ["sliding_attention"] * (layers - full)

    def write(self, config: ModelConfig) -> dict[str, Any]:
        kind = "full_attention" if config.window is None else "sliding_attention"
        return {
            "use_sliding_window": config.window is not None,
            "sliding_window": config.window,
            "max_window_layers": config.layers if config.window is None else 0,
            "layer_types": [kind] * config.layers,
        }

    def misfits(self, config: ModelConfig) -> list[str]:
        return []
