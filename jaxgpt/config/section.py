"""`Section`: the base of every config class. Frozen, hashable, typed, bounded, strict; no jax in sight."""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Sequence
from typing import Any, Literal, Self

from .errors import RequestError, nearest

_INT32 = 2**31 - 1
_FLOAT32 = (1.2e-38, 3.4e38)  # its normal numbers; XLA flushes smaller ones to 0, larger ones are infinite


def option(
    default: Any, doc: str, *, at_least: float | None = None, above: float | None = None,
    at_most: float | None = None, below: float | None = None,
) -> Any:  # fmt: skip
    """Declare a field: its default, the sentence that `--help` prints, and its bounds.

    Bounds are inclusive for `at_least` and `at_most`, exclusive for `above` and `below`.
    """
    bounds = {"at_least": at_least, "above": above, "at_most": at_most, "below": below}
    return dataclasses.field(default=default, metadata={"doc": doc, **bounds})


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _alternatives(hint: Any) -> tuple[Any, ...]:
    """`int | None` -> (int, NoneType); anything else -> (itself,)."""
    is_union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union  # Literal[...] | None
    return typing.get_args(hint) if is_union else (hint,)


def describe_type(hint: Any) -> str:
    """Return the words a message or `--help` uses for a field's type.

    >>> describe_type(int | None)
    'a whole number or none'
    """
    return " or ".join(_describe_part(part) for part in _alternatives(hint))


_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "none"}
_LIST_WORDS = {str: "several", float: "numbers with commas between"}


def _describe_part(part: Any) -> str:
    if typing.get_origin(part) is Literal:
        return " | ".join(typing.get_args(part))
    return _LIST_WORDS[_item(part)] if is_list(part) else _WORDS[part]


def is_list(hint: Any) -> bool:
    """Return whether a field may hold several values: `tuple[item, ...]`, or that as one of its alternatives.

    >>> is_list(tuple[float, ...] | None), is_list(float)
    (True, False)
    """
    return any(typing.get_origin(part) is tuple for part in _alternatives(hint))


def _item(hint: Any) -> Any:
    """Return the type of the values in a list."""
    return next(typing.get_args(part)[0] for part in _alternatives(hint) if typing.get_origin(part) is tuple)


def _convert(value: Any, hint: Any) -> Any:
    """Return `value` as `hint` wants it; raise TypeError where its type does not fit."""
    for part in _alternatives(hint):
        if typing.get_origin(part) is Literal:
            if isinstance(value, str) and value in typing.get_args(part):
                return value
        elif is_list(part):
            if isinstance(value, list | tuple) and value:
                return tuple(_convert(item, _item(part)) for item in value)
        elif part is float and type(value) in (int, float):
            return float(value)
        elif type(value) is part:
            return value
    raise TypeError


def parse_words(words: Sequence[str], hint: Any) -> Any:
    """Read the words of an option that may be given several times: several make a list, one stands for itself.

    Numbers may also stand in one word, with commas between; of another option the last one counts. A `none` among
    several is none too, which no list may hold (a file of that name is `./none`).

    >>> parse_words(["a.txt"], str | tuple[str, ...]), parse_words(["a.txt", "b.txt"], str | tuple[str, ...])
    ('a.txt', ('a.txt', 'b.txt'))
    >>> parse_words(["0.7,0.3"], tuple[float, ...] | None), parse_words(["none"], tuple[float, ...] | None)
    ((0.7, 0.3), None)
    """
    if not is_list(hint):
        return parse_text(words[-1], hint)
    item = _item(hint)
    if len(words) == 1 and (item in _alternatives(hint) or words[0].lower() == "none"):
        return parse_text(words[0], hint)
    single = words if item is str else [number for word in words for number in word.split(",")]
    return tuple(None if word.lower() == "none" else parse_text(word, item) for word in single)


def parse_text(text: str, hint: Any) -> Any:
    """Read a command-line word as a field's type; a word that does not fit comes back as text.

    (The section then refuses it with the same message that a TOML file would get.)

    >>> parse_text("3", int), parse_text("1e-3", float), parse_text("none", int | None), parse_text("x", int)
    (3, 0.001, None, 'x')
    """
    parts = _alternatives(hint)
    if type(None) in parts and text.lower() == "none":
        return None
    if bool in parts and text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        if number in parts:
            try:
                return number(text)
            except ValueError:
                continue
    return text


def _out_of_bounds(value: float, bounds: typing.Mapping[str, Any]) -> str:
    """Return the bound that `value` breaks in words, or an empty string."""
    if isinstance(value, float) and not math.isfinite(value):
        return "a finite number"
    if isinstance(value, float) and value and not _FLOAT32[0] <= abs(value) <= _FLOAT32[1]:
        return f"0, or {_FLOAT32[0]} to {_FLOAT32[1]}, as devices compute in float32"
    if isinstance(value, int) and value > _INT32 and bounds["at_most"] is None:
        return f"at most {_INT32}, as devices count in int32"
    tests = {
        "at_least": (lambda bound: value >= bound, "at least"),
        "above": (lambda bound: value > bound, "above"),
        "at_most": (lambda bound: value <= bound, "at most"),
        "below": (lambda bound: value < bound, "below"),
    }
    for name, (holds, words) in tests.items():
        bound = bounds[name]
        if bound is not None and not holds(bound):
            return f"{words} {bound}"
    return ""


class Section:
    """Base of the config dataclasses: checks types and bounds at construction, then calls `check`."""

    section: typing.ClassVar[str]

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            self._check_field(field)
        self.check()

    def _check_field(self, field: dataclasses.Field) -> None:
        value, name = getattr(self, field.name), f"{self.section}.{field.name}"
        hint = _hints(type(self))[field.name]
        try:
            value = _convert(value, hint)
        except (TypeError, OverflowError):  # a whole number too large for a float overflows
            choices = [c for part in _alternatives(hint) for c in typing.get_args(part) if isinstance(c, str)]
            close = nearest(value, choices) if isinstance(value, str) else ""
            message = f"{name}: expected {describe_type(hint)}, got {value!r}{close}"
            raise RequestError(message) from None
        object.__setattr__(self, field.name, value)
        for number in value if isinstance(value, tuple) else (value,):
            self._check_bounds(name, number, field.metadata)

    def _check_bounds(self, name: str, value: Any, bounds: typing.Mapping[str, Any]) -> None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            broken = _out_of_bounds(value, bounds)
            if broken:
                raise RequestError(f"{name}: expected {broken}, got {value}; change {name}")

    def check(self) -> None:
        """Refuse combinations that no single field's bounds can see; sections override it."""

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """Return the names of the fields, in order."""
        return tuple(field.name for field in dataclasses.fields(cls))

    @classmethod
    def hint(cls, name: str) -> Any:
        """Return the type annotation of one field."""
        return _hints(cls)[name]

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed; unknown names are refused with the nearest one."""
        for name in changes:
            if name not in self.field_names():
                close = nearest(name, self.field_names())
                raise RequestError(f"{self.section} has no field '{name}'{close}")
        return dataclasses.replace(self, **changes)
