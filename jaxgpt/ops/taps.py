"""Taps: a value passed down the forward pass that may see, or replace, every named intermediate.

The default tap returns what it is given, so a program traced without one is the program without taps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from jaxgpt.config import RequestError, nearest

Tap = Callable[[str, jax.Array], jax.Array]
Override = jax.Array | Callable[[jax.Array], jax.Array]


def no_tap(name: str, value: jax.Array) -> jax.Array:
    """Return `value` untouched."""
    del name
    return value


def scoped(tap: Tap, scope: str) -> Tap:
    """Return a tap that puts `scope/` before each name."""
    if tap is no_tap:
        return no_tap
    return lambda name, value: tap(f"{scope}/{name}", value)


class Recorder:
    """A tap that records each intermediate and lays overrides over the named ones.

    Example:
        >>> recorder = Recorder({"logits": lambda x: x * 0})
        >>> float(recorder("logits", jnp.ones(())))
        0.0
        >>> list(recorder.seen)
        ['logits']
    """

    def __init__(self, overrides: Mapping[str, Override] | None = None) -> None:
        self.seen: dict[str, jax.Array] = {}
        self._overrides = dict(overrides or {})

    def __call__(self, name: str, value: jax.Array) -> jax.Array:
        if name in self._overrides:
            value = self._replace(name, value)
        self.seen[name] = value
        return value

    def _replace(self, name: str, value: jax.Array) -> jax.Array:
        override = self._overrides[name]
        new = jnp.asarray(override(value) if callable(override) else override, value.dtype)
        if new.shape != value.shape:
            raise RequestError(f"override of '{name}': expected shape {list(value.shape)}, got {list(new.shape)}")
        return new

    def check_all_used(self) -> None:
        """Refuse an override whose name no intermediate had."""
        for name in self._overrides:
            if name not in self.seen:
                known = ", ".join(self.seen)
                close = nearest(name, self.seen)
                raise RequestError(f"override of unknown intermediate '{name}'{close} (there are: {known})")
