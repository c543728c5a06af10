"""Folders of others, written and read."""

import json

import pytest
from foreign_models import write_safetensors

from jaxgpt.interop.hugging_face import read_folder


@pytest.fixture
def folder(tmp_path):
    """Return a function of (config.json, arrays) that writes a folder and returns its path."""

    def write(document, arrays=None, *, dtype="F32", name="model.safetensors"):
        path = tmp_path / "folder"
        path.mkdir(exist_ok=True)
        (path / "config.json").write_text(json.dumps(document))
        if arrays is not None:
            write_safetensors(path / name, arrays, dtype)
        return path

    return write


@pytest.fixture
def read(folder):
    """Return a function that writes such a folder and reads it, no warning expected."""
    return lambda *arguments, **options: read_folder(folder(*arguments, **options), pytest.fail)
