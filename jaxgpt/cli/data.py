"""`jaxgpt data`: what prepares text for training, each in a file of its own named `data_...`."""

from __future__ import annotations

from .commands import run_group

COMMANDS = {
    "tokenizer": "learn a byte-level BPE from a text",
    "prepare": "encode texts of any size into one token file",
    "show": "print what a token file says about itself",
}


def main(arguments: list[str]) -> int:
    """Run one of the commands; without one, say which there are."""
    return run_group("data", "Prepare text for training.", COMMANDS, arguments)
