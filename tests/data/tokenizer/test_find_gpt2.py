"""GPT-2's merges are found where they may lie, and never fetched."""

import importlib.metadata
import socket
import sys

import pytest

from jaxgpt.data import make_tokenizer

# The sha1 of the address that tiktoken fetches from: the name in its cache.
CACHED = "6d1cbeee0f20b3d9449abfede4726ed8212e3aee"


@pytest.fixture(autouse=True)
def _no_network_and_nothing_there(monkeypatch, tmp_path):
    """An empty cache, no packages, and no way out."""

    def refuse(*_):
        raise AssertionError("the network was asked for")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: iter(()))
    monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()


@pytest.fixture
def merges(gpt2_folder):
    return (gpt2_folder / "vocab.bpe").read_bytes()


def test_without_any_copy_one_message_says_where_it_was_looked_for_and_how_to_provide_one(refusal, tmp_path):
    message = refusal(make_tokenizer, "gpt2", "")
    assert f"Looked for: {tmp_path}/cache/{CACHED} (No such file or directory); " in message
    assert "a vocab.bpe in the installed packages" in message
    assert "Give the path of a vocab.bpe with data.tokenizer" in message


@pytest.mark.parametrize("variable", ["TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR", None])
def test_the_cache_of_tiktoken_is_used(monkeypatch, tmp_path, merges, variable):
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / "data-gym-cache"
    if variable:
        folder = tmp_path / "elsewhere"
        monkeypatch.setenv(variable, str(folder))
    folder.mkdir()
    (folder / CACHED).write_bytes(merges)
    assert make_tokenizer("gpt2", "").encode("Hello world").tolist() == [15496, 995]


def test_a_cache_that_is_turned_off_is_not_used(monkeypatch, refusal):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert "Looked for: a vocab.bpe in the installed packages." in refusal(make_tokenizer, "gpt2", "")


def test_a_damaged_copy_is_named_and_left_alone(refusal, tmp_path):
    path = tmp_path / "cache" / CACHED
    path.write_bytes(b"#version: 0.2\n\xff")
    assert f"{path} (damaged, or another model's)" in refusal(make_tokenizer, "gpt2", "")
    assert path.exists()


def test_an_installed_package_that_carries_it_is_used(monkeypatch, tmp_path, merges):
    monkeypatch.undo()
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "nothing"))
    site = tmp_path / "site"
    (site / "carrier-1.0.dist-info").mkdir(parents=True)
    (site / "carrier-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: carrier\nVersion: 1.0\n")
    (site / "carrier-1.0.dist-info" / "RECORD").write_text(
        "carrier/data/vocab.bpe,,\ncarrier-1.0.dist-info/METADATA,,\n"
    )
    (site / "carrier" / "data").mkdir(parents=True)
    (site / "carrier" / "data" / "vocab.bpe").write_bytes(merges)
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    assert make_tokenizer("gpt2", "").vocab_size == 50257


def test_tiktoken_itself_looks_for_it_under_that_name(monkeypatch, tmp_path, merges):
    """So that what tiktoken has fetched once is found."""
    from tiktoken.load import read_file_cached

    (tmp_path / "cache" / CACHED).write_bytes(merges)
    address = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/vocab.bpe"
    assert read_file_cached(address) == merges
