"""From flat settings (`{"model.width": 128}`) to a `RunConfig` and back, remembering where each came from."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import RequestError, blamed_on, nearest
from .run import RunConfig

Settings = Mapping[str, Any]


def setting_names() -> tuple[str, ...]:
    """Return every `section.field` name."""
    return tuple(f"{name}.{field}" for name, cls in RunConfig.sections().items() for field in cls.field_names())


def flatten(config: RunConfig) -> dict[str, Any]:
    """Return `{section.field: value}`.

    >>> flatten(RunConfig())["train.batch_size"]
    12
    """
    nested = dataclasses.asdict(config)
    return {f"{name}.{field}": value for name, fields in nested.items() for field, value in fields.items()}


def check_names(settings: Settings, origin: str) -> None:
    """Refuse a name that no section has, with the nearest one."""
    for name in settings:
        if name not in setting_names():
            raise RequestError(f"{origin}: unknown setting '{name}'{nearest(name, setting_names())}")


def apply_settings(config: RunConfig, settings: Settings, origin: str) -> RunConfig:
    """Return `config` with flat `settings` laid over it.

    Raises:
        RequestError: an unknown name (with the nearest), or a value that its section refuses; the message
            begins with `origin`.
    """
    check_names(settings, origin)
    with blamed_on(origin):
        return _with_settings(config, settings)


def _with_settings(config: RunConfig, settings: Settings) -> RunConfig:
    changed: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        section, field = name.split(".")
        changed.setdefault(section, {})[field] = value
    sections = {name: getattr(config, name).replace(**fields) for name, fields in changed.items()}
    return dataclasses.replace(config, **sections)


def _origin_of(message: str, origins: Mapping[str, str]) -> str:
    """Return where the settings that a message names came from."""
    named = [origin for name, origin in origins.items() if name in message]
    return ", ".join(dict.fromkeys(named or origins.values()))


def compose(layers: Sequence[tuple[str, Settings]]) -> tuple[RunConfig, dict[str, str]]:
    """Lay settings over the defaults, later layers winning.

    Returns:
        The config, and `{name: origin}` for each setting that differs from its default.
    """
    merged: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, settings in layers:
        check_names(settings, origin)
        merged.update(settings)
        origins.update(dict.fromkeys(settings, origin))
    try:
        config = _with_settings(RunConfig(), merged)
    except RequestError as error:
        raise RequestError(f"{_origin_of(str(error), origins)}: {error}") from None
    return config, {name: origins[name] for name in differing(config)}


def differing(config: RunConfig) -> tuple[str, ...]:
    """Return the names of the settings that differ from their defaults.

    >>> differing(RunConfig(train=RunConfig().train.replace(steps=10)))
    ('train.steps',)
    """
    defaults, values = flatten(RunConfig()), flatten(config)
    return tuple(name for name in values if values[name] != defaults[name])


def from_nested(nested: Mapping[str, Any], origin: str) -> RunConfig:
    """Rebuild a config from `{section: {field: value}}`, as a TOML file or a manifest holds it."""
    return apply_settings(RunConfig(), flatten_nested(nested, origin), origin)


def flatten_nested(nested: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """Return `{section.field: value}` of a two-level mapping; anything outside a section is refused."""
    settings = {}
    for section, fields in nested.items():
        if section not in RunConfig.sections():
            if not isinstance(fields, Mapping):
                raise RequestError(f"{origin}: '{section}' stands outside a section; write it below one, as [model]")
            close = nearest(section, RunConfig.sections())
            raise RequestError(f"{origin}: unknown section '{section}'{close}")
        if not isinstance(fields, Mapping):
            raise RequestError(f"{origin}: '{section}' is a section; write [{section}] and its fields below it")
        settings.update({f"{section}.{field}": value for field, value in fields.items()})
    return settings


def read_toml(path: Path) -> dict[str, Any]:
    """Return the flat settings of a TOML file.

    Raises:
        RequestError: the file is missing, not UTF-8, not TOML, or names an unknown section or field.
    """
    try:
        nested = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RequestError(
            f"cannot read the config file {path}: {error.strerror}; name a readable TOML file with --config"
        ) from None
    except ValueError as error:  # not UTF-8, not TOML, or a number of thousands of digits
        raise RequestError(f"{path} is not a TOML file: {error}") from None
    settings = flatten_nested(nested, str(path))
    check_names(settings, str(path))
    return settings
