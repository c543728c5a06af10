"""Compiled programs kept from one command to the next, so that a short command does not wait for the compiler."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from jaxgpt.config import warn


def keep_compiled_programs() -> None:
    """Let JAX keep what it compiles, small programs too, in a folder of the user's.

    It is the one that JAX knows already (JAX_COMPILATION_CACHE_DIR), else jaxgpt/compiled in the user's cache folder.
    Where that cannot be written, a warning says so and every program is compiled anew.
    """
    import jax

    folder = jax.config.jax_compilation_cache_dir or str(user_cache() / "jaxgpt" / "compiled")
    try:
        _check_writable(folder)
    except OSError as error:
        jax.config.update("jax_compilation_cache_dir", None)
        warn(
            f"compiled programs are not kept: {folder}: {error.strerror}; name another folder with "
            "JAX_COMPILATION_CACHE_DIR"
        )
        return
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def user_cache() -> Path:
    """Return the folder in which programs keep what can be made again: XDG_CACHE_HOME, else ~/.cache."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    return Path(named) if Path(named).is_absolute() else Path.home() / ".cache"  # a relative one is to be ignored


def _check_writable(folder: str) -> None:
    """Make the folder and write into it; a folder of another machine (gs://...) is left to JAX."""
    if "://" not in folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
