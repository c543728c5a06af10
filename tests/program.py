"""The command line as a child process."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = [sys.executable, "-c", "import sys; from jaxgpt.cli import main; sys.exit(main())"]


def run_program(*arguments, cwd, timeout=300):
    """Run `jaxgpt ARGUMENTS` in the folder `cwd` and return the finished process."""
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, timeout=timeout, capture_output=True, text=True, check=False)
