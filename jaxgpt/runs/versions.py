"""The versions of the libraries that numbers depend on; read without importing any of them."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterable

_PACKAGES = (
    "jaxgpt",
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "grain",
    "numpy",
    "tokenizers",
    "tiktoken",
)


def library_versions() -> dict[str, str]:
    """Return the versions that a run's numbers depend on, `"not installed"` where a package has none.

    >>> sorted(library_versions())[:3]
    ['flax', 'grain', 'jax']
    """
    installed = installed_versions(_PACKAGES)
    return {"python": platform.python_version()} | {
        package: installed.get(package, "not installed") for package in _PACKAGES
    }


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed.

    >>> list(installed_versions(["jax", "no-such-package"]))
    ['jax']
    """
    found = {package: next(iter(importlib.metadata.distributions(name=package)), None) for package in packages}
    return {package: distribution.version for package, distribution in found.items() if distribution is not None}
