"""Every config field as a command-line option, and the layers of settings that a command line asks for."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from jaxgpt.config import RunConfig, preset_names, preset_settings, read_toml
from jaxgpt.config.section import describe_type, parse_words

from .parser import Parser

Layers = list[tuple[str, dict[str, Any]]]


def add_source_options(parser: Parser) -> None:
    """Add the options that name a preset and a TOML file."""
    presets = ", ".join(preset_names())
    parser.add_argument(
        "--preset", help=f"settings to start from: {presets} (default: quickstart, or none with --config)"
    )
    parser.add_argument(
        "--config", metavar="FILE", help="a TOML file of settings, laid over the preset (default: none)"
    )


def add_setting_options(parser: Parser, defaults: dict[str, Any]) -> None:
    """Add `--section.field VALUE` for every field; an option that is not given leaves no trace."""
    for name, cls in RunConfig.sections().items():
        group = parser.add_argument_group(f"{name}: {(cls.__doc__ or '').splitlines()[0]}")
        for field in dataclasses.fields(cls):
            option = f"{name}.{field.name}"
            default = str(defaults[option]).lower() if defaults[option] in (None, True, False) else defaults[option]
            words = f"{field.metadata['doc']} ({describe_type(cls.hint(field.name))}; default: {default})"
            group.add_argument(
                f"--{option}", dest=option, action="append", metavar="VALUE", help=words.replace("%", "%%")
            )


def given_settings(options: dict[str, Any]) -> dict[str, Any]:
    """Return the flat settings that were given on the command line, read as their fields' types."""
    settings = {}
    for name, cls in RunConfig.sections().items():
        for field in cls.field_names():
            words = options.get(f"{name}.{field}")
            if words is not None:
                settings[f"{name}.{field}"] = parse_words(words, cls.hint(field))
    return settings


def source_layers(preset: str | None, config: str | None) -> Layers:
    """Return the layers that `--preset` and `--config` stand for; the quickstart preset where neither is given."""
    layers: Layers = []
    if preset is not None or config is None:
        name = "quickstart" if preset is None else preset
        layers.append((f"preset {name}", preset_settings(name)))
    if config is not None:
        layers.append((f"file {config}", read_toml(Path(config))))
    return layers
