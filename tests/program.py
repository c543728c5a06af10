"""Programs that tests run: how they are compiled, and the command line as a child process."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# XLA's options that compile in half the time what then runs more slowly.
QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
PROGRAM = [sys.executable, "-c", "import sys; from jaxgpt.cli import main; sys.exit(main())"]


def run_program(*arguments, cwd, timeout=300):
    """Run `jaxgpt ARGUMENTS` in the folder `cwd` and return the finished process."""
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, timeout=timeout, capture_output=True, text=True, check=False)


@contextlib.contextmanager
def nobody_reading(monkeypatch):
    """Standard output is a pipe whose reader has left."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as out, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", out)
        yield
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())  # so that it can be closed
