"""The most memory that this process has held."""

from __future__ import annotations

import resource
import sys

import jax


def peak_memory() -> str:
    """Return the peak memory in words: the accelerator's own count, or the process's resident set."""
    stats = jax.devices()[0].memory_stats() if jax.default_backend() != "cpu" else None
    if stats and "peak_bytes_in_use" in stats:
        return f"{stats['peak_bytes_in_use'] / 1e6:,.0f} MB (peak_bytes_in_use)"
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss is bytes on macOS, KiB on Linux
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6:,.0f} MB (ru_maxrss)"
