"""What every test may use: small texts, the shared test data, and child processes."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).resolve().parent.parent
DATA_VARIABLE = "JAXGPT_TEST_DATA"
PROGRAM = [sys.executable, "-c", "import sys; from jaxgpt.cli import main; sys.exit(main())"]


@pytest.fixture(scope="session", autouse=True)
def _compiled_programs_are_shared(tmp_path_factory):
    """Many tests run one and the same small program; compile it once a session."""
    jax.config.update("jax_compilation_cache_dir", str(tmp_path_factory.mktemp("compiled")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


@pytest.fixture(scope="session")
def test_data():
    """The folder that JAXGPT_TEST_DATA names; a test that needs it is skipped without it."""
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        pytest.skip(f"{DATA_VARIABLE} is not set")
    path = (ROOT / folder).resolve()
    assert path.is_dir(), f"{DATA_VARIABLE} names {path}, which is no folder"
    return path


@pytest.fixture
def jaxgpt_command(tmp_path):
    """Run `jaxgpt ARGUMENTS` in a child process, in an empty folder, and return the finished process."""

    def run(*arguments, cwd=tmp_path, timeout=300, **options):
        return subprocess.run(
            [*PROGRAM, *map(str, arguments)],
            cwd=cwd, timeout=timeout, capture_output=True, text=True, check=False, **options,
        )  # fmt: skip

    return run
