"""What every test may use: programs compiled once, and the shared test data."""

import os

import jax
import pytest
from program import QUICK, ROOT

DATA_VARIABLE = "JAXGPT_TEST_DATA"
# XLA reads it once, when the first device is asked for. `XLA_FLAGS= pytest` compiles as users do.
os.environ.setdefault("XLA_FLAGS", " ".join(f"--{name}={str(value).lower()}" for name, value in QUICK.items()))


@pytest.fixture(scope="session")
def lesson():
    """The lesson, computed once."""
    from jaxgpt.explain.lesson import run_lesson

    return run_lesson()


@pytest.fixture(scope="session", autouse=True)
def _compiled_programs_are_shared(tmp_path_factory):
    """Many tests run one and the same small program; compile it once a session, and leave the user's cache alone."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # each worker has a folder of its own in that of the session
    jax.config.update("jax_compilation_cache_dir", str(folder / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    with pytest.MonkeyPatch.context() as patched:  # for commands that are run as processes of their own
        patched.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield


@pytest.fixture(scope="session")
def test_data():
    """The folder of shared data that JAXGPT_TEST_DATA names; a test that needs it is skipped without it."""
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        pytest.skip(f"set {DATA_VARIABLE} to the folder of shared test data")
    path = (ROOT / folder).resolve()
    assert path.is_dir(), f"{DATA_VARIABLE} is {folder}, but there is no {path}"
    return path


@pytest.fixture(scope="session")
def shakespeare_path(test_data):
    """Tiny Shakespeare."""
    return str(test_data / "tinyshakespeare" / "input.txt")
