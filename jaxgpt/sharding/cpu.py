"""One XLA device per CPU core: the batch is then computed by all cores at once, each on rows of its own."""

from __future__ import annotations

import os

from jaxgpt.config import RequestError

from .mesh import largest_divisor


def cores() -> int:
    """Return the number of cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def arrange_cpu_devices(sequences: int, wanted: int = 0) -> None:
    """Let XLA's CPU client have one device per core, as many as divide the rows of a micro-batch.

    It must run before JAX's first computation, so commands call it, never an import. Accelerators are untouched. A
    count that the environment already fixes (XLA_FLAGS) stays.

    Args:
        sequences: Rows of one micro-batch.
        wanted: Number of devices; 0 takes the largest divisor of `sequences` up to the number of cores.

    Raises:
        RequestError: JAX has started already.
    """
    count = wanted or largest_divisor(sequences, cores())
    if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        import jax

        try:
            jax.config.update("jax_num_cpu_devices", count)
        except RuntimeError:
            raise RequestError(
                "JAX has already started in this process, so CPU devices can no longer be arranged; run the command "
                "in a process of its own, or call jaxgpt.train"
            ) from None
