"""The machine and the libraries that a measurement ran on, and what the machine can do at best."""

from __future__ import annotations

import itertools
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxgpt.runs.versions import installed_versions, library_versions
from jaxgpt.sharding.cpu import cores

# Environment variables that change what XLA or PyTorch make of the same program.
_VARIABLES = ("XLA_FLAGS", "PJRT_NPROC", "NPROC", "OMP_NUM_THREADS", "JAX_PLATFORMS", "JAX_DEFAULT_MATMUL_PRECISION")

# Compilers, kernels and peers, of which a machine has only some.
_OPTIONAL = (
    "torch",
    "transformers",
    "tokamax",
    "libtpu",
    "jax-cuda12-plugin",
    "jax-cuda13-plugin",
    "nvidia-cudnn-cu12",
    "nvidia-cudnn-cu13",
    "nvidia-cuda-nvcc",
)


class Machine(NamedTuple):
    """What was measured of this machine: the best of several tries, on one device and on all together.

    Attributes:
        gflops: 10^9 floating-point operations a second in large matrix products.
        gigabytes_per_second: 10^9 bytes a second read from memory.
    """

    gflops: float
    gigabytes_per_second: float


def processor() -> str:
    """Return the processor's name as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def environment() -> dict[str, Any]:
    """Return processor, cores, load, system, devices, variables, and the versions of what is installed.

    Example:
        >>> environment()["cores"] >= 1
        True
    """
    first = jax.devices()[0]
    return {
        "processor": processor(),
        "cores": cores(),
        "load_average": os.getloadavg(),
        "system": platform.platform(),
        "devices": {"count": len(jax.devices()), "platform": first.platform, "kind": first.device_kind},
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        "versions": library_versions() | installed_versions(_OPTIONAL),
    }


def free_bytes() -> int | None:
    """Return the memory that a program may still take on the first device; None where nobody tells."""
    if jax.default_backend() != "cpu":
        stats = jax.devices()[0].memory_stats() or {}
        return stats["bytes_limit"] - stats["bytes_in_use"] if "bytes_limit" in stats else None
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), None)


def measure_machine(dtype: str, seconds: float) -> Machine:
    """Return the best rates seen, in matrix products of `dtype` and in reading a large array.

    Args:
        dtype: Of the matrices.
        seconds: Time to spend, after compiling; half for each.
    """
    large = jax.default_backend() != "cpu"
    sizes, megabytes = ((4096, 8192), 1024) if large else ((768, 1024, 1536), 256)
    forms = list(itertools.product(sizes, {1, len(jax.devices())}))
    gflops = max(_matmul_gflops(size, dtype, count, seconds / 2 / len(forms)) for size, count in forms)
    return Machine(gflops, _read_rate(megabytes << 20, seconds / 2))


def _rows(devices: int) -> NamedSharding:
    """Return the sharding that gives each of so many devices as many rows."""
    return NamedSharding(Mesh(np.array(jax.devices()[:devices]), ("rows",)), PartitionSpec("rows"))


def _matmul_gflops(size: int, dtype: str, devices: int, seconds: float) -> float:
    """Multiply square matrices, the left one's rows divided among the devices."""
    left = jax.device_put(jnp.ones((size * devices, size), dtype), _rows(devices))
    right = jax.device_put(jnp.ones((size, size), dtype), NamedSharding(_rows(devices).mesh, PartitionSpec()))
    run = jax.jit(jnp.matmul).lower(left, right).compile()
    return 2 * devices * size**3 / _best(lambda: run(left, right), seconds) / 1e9


def _read_rate(size: int, seconds: float) -> float:
    """Sum an array larger than the caches, so that it comes from memory."""
    devices = len(jax.devices())
    array = jax.device_put(jnp.ones((devices, size // 4 // devices), jnp.float32), _rows(devices))
    run = jax.jit(lambda x: x.sum(axis=1)).lower(array).compile()
    return array.nbytes / _best(lambda: run(array), seconds) / 1e9


def _best(call: Callable[[], Any], seconds: float) -> float:
    """Return the least seconds of a call, of at least three."""
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - start)
    return min(times)
