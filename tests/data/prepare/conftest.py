"""A folder to prepare texts in, and one in which that was interrupted."""

from pathlib import Path

import pytest
from preparing import LINES, interrupted, request_for


@pytest.fixture
def small_blocks(monkeypatch):
    """Many jobs, each secured."""
    monkeypatch.setattr("jaxgpt.data.prepare.reading.BLOCK", 4096)
    monkeypatch.setattr("jaxgpt.data.prepare.preparation._SECURE_EVERY", 0.0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def begun(folder, small_blocks, monkeypatch):
    """A request that was killed half way."""
    Path("a.txt").write_text(LINES)
    request = request_for("a.txt")
    assert interrupted(request, monkeypatch, 40)
    return request
