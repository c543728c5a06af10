"""The versions of the libraries that numbers depend on; read without importing any of them."""

from __future__ import annotations

import importlib.metadata
import platform

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
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions
