"""`jaxgpt data show`: the header of a token file in words, and its ids checked where that is asked for."""

import json

import pytest

from jaxgpt.data import ByteTokenizer, write_token_file


@pytest.fixture
def token_file(tmp_path):
    write_token_file(tmp_path / "a.tokens", list(b"to be\n" * 300), ByteTokenizer(), source="a text")
    return tmp_path / "a.tokens"


def test_the_header_is_shown_as_a_table(command, token_file):
    code, out, err = command("data", "show", "a.tokens")
    assert (code, err) == (0, "")
    rows = {line[:15].rstrip(): line[15:] for line in out.splitlines()}
    assert rows["tokens"] == "1,800"
    assert (rows["dtype"], rows["vocabulary"], rows["documents"], rows["end token"]) == (
        "uint16",
        "256",
        "not known",
        "none",
    )
    assert (rows["source"], rows["begins with"]) == ("a text", repr(("to be\n" * 6)[:32]))
    assert rows["tokenizer"] == f"bytes, hash {ByteTokenizer().fingerprint()}"
    assert rows["ids"] == "not checked (--check reads them all)"


def test_the_ids_are_checked_where_that_is_asked_for(command, token_file):
    code, out, _ = command("data", "show", "a.tokens", "--check", "--json")
    assert (code, json.loads(out)["ids"]) == (0, "in the vocabulary, and as the hash says")
    damaged = bytearray(token_file.read_bytes())
    damaged[-2] ^= 1
    token_file.write_bytes(damaged)
    assert command("data", "show", "a.tokens")[0] == 0
    code, out, err = command("data", "show", "a.tokens", "--check")
    assert (code, out) == (2, "")
    assert "a.tokens: its 1,800 ids have the sha256" in err


def test_another_file_is_refused(refusal, tmp_path):
    (tmp_path / "a.txt").write_text("to be or not to be")
    assert "a.txt: this is no token file, it begins with b'to be or'" in refusal("data", "show", "a.txt")
