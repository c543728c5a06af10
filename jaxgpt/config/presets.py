"""The presets: TOML files that lie in `configs/` of a source tree, or in `jaxgpt/configs` of a wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .compose import apply_settings, read_toml
from .errors import RequestError, nearest
from .run import RunConfig


def preset_folder() -> Path:
    """Return the folder that holds the presets, wherever this package was installed from."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "configs", package.parent / "configs"):
        if (folder / "quickstart.toml").is_file():
            return folder
    raise RequestError(f"no presets beside {package}; install jaxgpt again from its source tree or wheel")


def preset_names() -> tuple[str, ...]:
    """Return the names that `--preset` takes, sorted."""
    return tuple(sorted(path.stem for path in preset_folder().glob("*.toml")))


def preset_settings(name: str) -> dict[str, Any]:
    """Return the flat settings of a preset.

    Raises:
        RequestError: no such preset; the message lists them and names the nearest.
    """
    if name not in preset_names():
        known = ", ".join(preset_names())
        raise RequestError(f"unknown preset {name!r}{nearest(name, preset_names())} (presets: {known})")
    return read_toml(preset_folder() / f"{name}.toml")


def load_preset(name: str) -> RunConfig:
    """Return a preset as a whole run's config."""
    return apply_settings(RunConfig(), preset_settings(name), f"preset {name}")
