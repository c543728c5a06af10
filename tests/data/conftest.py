"""Where the tests of this folder find the text they count on."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shakespeare_path() -> str:
    """Tiny Shakespeare, or a skip that says how to provide it."""
    folder = os.environ.get("JAXGPT_TEST_DATA")
    if folder is None:
        pytest.skip("set JAXGPT_TEST_DATA to a folder that holds tinyshakespeare/input.txt")
    return str(Path(folder) / "tinyshakespeare" / "input.txt")
