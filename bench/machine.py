"""The machine and the libraries that a measurement ran on, for its record."""

import os
import platform
from pathlib import Path

from jaxgpt.runs.manifest import library_versions
from jaxgpt.sharding.cpu import cores


def processor() -> str:
    """Return the processor's name as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def environment() -> dict:
    """Return processor, cores, load, system and versions."""
    return {
        "processor": processor(),
        "cores": cores(),
        "load_average": os.getloadavg(),
        "system": platform.platform(),
        "versions": library_versions(),
    }
