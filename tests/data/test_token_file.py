"""A token file gives back the ids it was given; one that is damaged is refused in words."""

import dataclasses
import hashlib
import io
import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgpt.config import RequestError, WorkError
from jaxgpt.data import ByteTokenizer, CharacterTokenizer
from jaxgpt.data.token_file import TokenFile, is_token_file, write_token_file
from jaxgpt.data.token_header import TokenHeader, token_dtype

LETTERS = CharacterTokenizer(tuple("abcde"))
MANY = CharacterTokenizer(tuple(map(chr, range(0x10000, 0x10000 + 65_537))))


def refusal(call, *arguments, **options) -> str:
    with pytest.raises(RequestError) as caught:
        call(*arguments, **options)
    return str(caught.value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tokens")


@pytest.fixture(scope="module")
def whole(folder):
    """The bytes of a sound file: 5 ids of 3 documents."""
    path = folder / "whole.tokens"
    write_token_file(path, [0, 4, 1, 4, 4], LETTERS, source="letters", end_id=4, documents=3)
    return path.read_bytes()


def test_the_bytes_are_those_of_the_format(whole):
    magic, version, length, digest = struct.unpack("<8sII32s", whole[:48])
    content = whole[48 : 48 + length]
    assert (magic, version, digest) == (b"jaxgpt\x00t", 1, hashlib.sha256(content).digest())
    assert (48 + length) % 64 == 0
    ids = b"\0\0\4\0\1\0\4\0\4\0"
    assert whole[48 + length :] == ids
    assert json.loads(content) == {
        "vocab_size": 5,
        "dtype": "uint16",
        "count": 5,
        "sha256": hashlib.sha256(ids).hexdigest(),
        "end_id": 4,
        "documents": 3,
        "source": "letters",
        "tokenizer": {"kind": "characters", "characters": list("abcde")},
        "tokenizer_hash": LETTERS.fingerprint(),
    }


@given(st.lists(st.integers(0, 4), min_size=1))
def test_any_ids_come_back(folder, ids):
    assert read_back(folder, ids, LETTERS) == (ids, "uint16")


def test_a_large_vocabulary_takes_four_bytes_an_id(folder):
    ids = [65_536, 0, 65_535]
    assert read_back(folder, ids, MANY) == (ids, "uint32")


def read_back(folder, ids, tokenizer):
    path = folder / "read.tokens"
    write_token_file(path, ids, tokenizer, source="drawn")
    tokens = TokenFile.open(path)
    tokens.check()
    assert is_token_file(path)
    assert tokens.tokenizer == tokenizer
    assert tokens.header.dtype == tokens.ids_N.dtype.name
    return tokens.ids_N.tolist(), tokens.header.dtype


def test_ids_are_mapped_and_cannot_be_changed(folder, whole):
    tokens = TokenFile.open(folder / "whole.tokens")
    assert isinstance(tokens.ids_N, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        tokens.ids_N[0] = 1


@given(data=st.data())
def test_a_changed_header_is_refused(folder, whole, data):
    place = data.draw(st.integers(0, len(whole) - 11))
    damaged = bytearray(whole)
    damaged[place] ^= data.draw(st.integers(1, 255))
    path = folder / "damaged.tokens"
    path.write_bytes(damaged)
    assert "damaged.tokens: " in refusal(TokenFile.open, path)


@given(data=st.data())
def test_another_length_is_refused(folder, whole, data):
    path = folder / "length.tokens"
    shorter = data.draw(st.booleans())
    path.write_bytes(
        whole[: data.draw(st.integers(0, len(whole) - 1))] if shorter else whole + data.draw(st.binary(min_size=1))
    )
    message = refusal(TokenFile.open, path)
    if not shorter:
        assert f"({len(path.read_bytes()) - len(whole)} too many)" in message


@given(data=st.data())
def test_changed_ids_are_found_by_the_check(folder, whole, data):
    path = folder / "flipped.tokens"
    damaged = bytearray(whole)
    damaged[-data.draw(st.integers(1, 10))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(damaged)
    refusal(TokenFile.open(path).check)


def forged(whole, ids=None, **changes):
    """The file with other fields or ids, its hashes made to fit."""
    header = json.loads(whole[48 : whole.rindex(b"}") + 1]) | changes
    header = {name: value for name, value in header.items() if value is not ...}
    content = json.dumps(header).encode().ljust(1024 - 48)
    start = struct.pack("<8sII32s", b"jaxgpt\x00t", 1, len(content), hashlib.sha256(content).digest())
    return start + content + (whole[-10:] if ids is None else ids)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"extra": 1}, "other fields than this version's: 'extra'"),
        ({"source": ...}, "other fields than this version's: no source"),
        ({"vocab_size": 0}, "vocab_size = 0, expected a whole number, 1 to 4294967296"),
        ({"vocab_size": True}, "vocab_size = True"),
        ({"vocab_size": 6}, "6 ids with the hash"),
        ({"dtype": "uint32"}, "dtype = 'uint32', expected 'uint16', the smallest for 5 ids"),
        ({"count": 6}, "6 ids of uint16, 12 bytes, but 10 follow (2 bytes are missing)"),
        ({"count": 0}, "count = 0, expected a whole number, at least 1"),
        ({"count": 2**63}, "count = 9223372036854775808"),
        ({"sha256": "f"}, "sha256 = 'f', expected 64 hexadecimal digits"),
        ({"end_id": 5}, "end_id = 5, expected null, or 0 to 4"),
        ({"documents": 0}, "documents = 0"),
        ({"source": 3}, "source = 3, expected text"),
        ({"tokenizer": "bytes"}, "tokenizer = 'bytes', expected a tokenizer's record"),
        ({"tokenizer": {"kind": "byts"}}, "unknown tokenizer kind 'byts'; did you mean 'bytes'?"),
        ({"tokenizer": {"kind": "bytes"}}, "the tokenizer in it has 256 with"),
        ({"tokenizer_hash": "0" * 64}, "with the hash 000000000000, but"),
    ],
    ids=str,
)
def test_a_header_that_says_what_cannot_be_is_refused(folder, whole, changes, words):
    path = folder / "forged.tokens"
    path.write_bytes(forged(whole, **changes))
    message = refusal(TokenFile.open, path)
    assert message.startswith(f"{path}: ")
    assert words in message


def test_the_first_id_outside_the_vocabulary_is_named(folder, whole):
    ids = np.array([0, 1, 5, 2, 9], "<u2").tobytes()
    path = folder / "outside.tokens"
    path.write_bytes(forged(whole, ids, sha256=hashlib.sha256(ids).hexdigest()))
    assert "id 5 at position 2 is outside 0..4, its vocabulary of 5" in refusal(TokenFile.open(path).check)


def test_a_place_is_counted_from_the_first_piece(folder, whole, monkeypatch):
    monkeypatch.setattr("jaxgpt.data.token_file._PIECE", 2)
    ids = np.array([0, 1, 2, 7, 2], "<u2").tobytes()
    path = folder / "pieces.tokens"
    path.write_bytes(forged(whole, ids, sha256=hashlib.sha256(ids).hexdigest()))
    assert "id 7 at position 3" in refusal(TokenFile.open(path).check)
    path.write_bytes(whole)
    seen = []
    TokenFile.open(path).check(seen.append)
    assert seen == [2, 4, 5]


def test_a_file_that_is_cut_while_it_is_open_is_noticed(folder, whole):
    path = folder / "cut.tokens"
    path.write_bytes(whole)
    tokens = TokenFile.open(path)
    path.write_bytes(whole[:-3])
    assert "its 3 ids have the sha256" in refusal(tokens.check)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "this is no token file, it begins with b''"),
        (b"First Citizen:\n", "this is no token file, it begins with b'First Ci'; `jaxgpt data prepare` writes one"),
        (b"jaxgpt\x00t\x02\0\0\0" + bytes(40), "version 2, and this program reads version 1"),
    ],
    ids=["empty", "text", "newer"],
)
def test_another_file_is_refused(tmp_path, content, words):
    path = tmp_path / "other"
    path.write_bytes(content)
    assert words in refusal(TokenFile.open, path)


def test_what_cannot_be_read_is_refused(tmp_path):
    assert "cannot be read: No such file or directory" in refusal(TokenFile.open, tmp_path / "missing")
    assert "cannot be read: Is a directory" in refusal(TokenFile.open, tmp_path)
    assert "cannot be read: embedded null byte" in refusal(TokenFile.open, "a\0b")
    assert not any(map(is_token_file, [tmp_path, tmp_path / "missing", "a\0b"]))


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([], "expected one row of ids, at least one, got shape (0,)"),
        ([[1, 2]], "got shape (1, 2)"),
        ([1, 5], "token id 5 at position 1 is outside 0..4"),
        ([1.0], "expected token ids, whole numbers"),
    ],
    ids=str,
)
def test_what_are_no_ids_is_not_written(tmp_path, ids, words):
    assert words in refusal(write_token_file, tmp_path / "new.tokens", ids, LETTERS, source="")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_an_error_of_the_disk(tmp_path):
    with pytest.raises(WorkError, match="No such file or directory; free space or name another folder"):
        write_token_file(tmp_path / "gone" / "new.tokens", [1], LETTERS, source="")


@pytest.mark.parametrize(("vocab_size", "dtype"), [(1, "uint16"), (2**16, "uint16"), (2**16 + 1, "uint32")])
def test_the_smaller_dtype_that_holds_the_last_id_is_taken(vocab_size, dtype):
    assert token_dtype(vocab_size).name == dtype
    assert np.iinfo(dtype).max >= vocab_size - 1


def test_a_vocabulary_beyond_uint32_is_refused():
    assert "1 to 4294967296 kinds, got a vocabulary of 4294967297" in refusal(token_dtype, 2**32 + 1)


def test_a_header_fills_the_room_that_was_left_for_it():
    header = TokenHeader(256, "uint16", 1, "0" * 64, None, 1, "", ByteTokenizer().to_json(), "0" * 64)
    room = len(dataclasses.replace(header, count=2**63 - 1, documents=2**63 - 1).to_bytes()) + 64
    assert len(header.to_bytes()) < room
    content = header.to_bytes(room)
    assert len(content) == room
    assert TokenHeader.read(io.BytesIO(content)) == header
