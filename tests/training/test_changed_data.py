"""A file of ids that is written to while a run maps it stops the run, which saves nothing that may come of it."""

import os

import numpy as np
import pytest
from small_training import TEXT

from jaxgpt.config import WorkError
from jaxgpt.data import CharacterTokenizer
from jaxgpt.data.token_file import write_token_file
from jaxgpt.runs.step_folders import saved_steps
from jaxgpt.training import run
from jaxgpt.training.material import gather_material

CHARACTERS = CharacterTokenizer.train(TEXT)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "text.tokens"
    write_token_file(path, CHARACTERS.encode(TEXT), CHARACTERS, source="a test")
    os.utime(path, ns=(0, 0))
    return path


def grow(path):
    with path.open("ab") as file:
        file.write(b"more")


def spoil(path):
    np.memmap(path, "<u2", mode="r+", offset=path.stat().st_size - 1800)[:] = 60_000
    os.utime(path)


@pytest.mark.parametrize("change", [grow, spoil])
def test_a_run_stops_where_its_ids_changed_and_names_the_file(tiny, path, tmp_path, monkeypatch, change):
    monkeypatch.setattr(run, "describe", lambda *_: change(path))  # all is checked, no step is done
    with pytest.raises(WorkError) as caught:
        run.train(tiny({"data.path": str(path)}), out=tmp_path / "run")
    assert str(caught.value).startswith(f"{path} changed since it was checked, so the last steps may have read other")
    assert saved_steps(tmp_path / "run" / "checkpoints") == []


def test_a_file_that_is_replaced_or_deleted_is_still_mapped_as_it_was(tiny, path, tmp_path):
    sources = gather_material(tiny({"data.path": str(path)}), None, pytest.fail).sources
    (tmp_path / "new").write_bytes(b"new")
    os.replace(tmp_path / "new", path)
    assert sources.changed() == []
    path.unlink()
    assert sources.changed() == []
