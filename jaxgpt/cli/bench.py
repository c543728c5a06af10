"""`jaxgpt bench`: measure speed, each subject in a file of its own named `bench_...`."""

from __future__ import annotations

from .commands import run_group

COMMANDS = {
    "attention": "compiled against eager attention, on one device and on all",
    "decode": "generation with a KV cache, against reading its bytes alone",
}


def main(arguments: list[str]) -> int:
    """Run one of the commands; without one, say which there are."""
    return run_group("bench", "Measure speed of what was checked first.", COMMANDS, arguments)
