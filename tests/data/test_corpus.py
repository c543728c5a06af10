"""The text is the file's, to the byte, or the request is refused in words."""

import hashlib
import os
import platform
import sys
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jaxgpt.config import RequestError
from jaxgpt.data import Corpus, TokenFile, check_same_corpus, load_corpus, split_by_position
from jaxgpt.data.sources import open_source
from jaxgpt.data.tokenizer.kinds import make_tokenizer


def refusal(call, *arguments) -> str:
    with pytest.raises(RequestError) as caught:
        call(*arguments)
    return str(caught.value)


@pytest.fixture
def write(tmp_path):
    def write_file(content: bytes) -> str:
        path = tmp_path / "text.txt"
        path.write_bytes(content)
        return str(path)

    return write_file


def test_tiny_shakespeare_has_1115394_characters(shakespeare_path):
    assert len(load_corpus(shakespeare_path).text) == 1_115_394


def test_a_file_keeps_its_newlines_and_its_hash(write):
    content = "one\r\ntwo\rthree\nvier: ü\n".encode()
    corpus = load_corpus(write(content))
    assert corpus.text.encode() == content
    assert corpus.sha256 == hashlib.sha256(content).hexdigest()
    assert corpus.identity == {"source": corpus.source, "characters": 23, "sha256": corpus.sha256}
    assert corpus.source.endswith("text.txt")


def test_the_built_in_corpus_is_the_manual_of_this_python():
    corpus = load_corpus(None)
    assert "Lambda expressions" in corpus.text
    assert len(corpus.text) > 300_000
    assert platform.python_version() in corpus.source


def test_a_python_without_its_manual_is_told_to_bring_a_file(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    assert "set data.path to a UTF-8 text file" in refusal(load_corpus, None)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbfabc", "byte order mark"),
        (b"caf\xe9 au lait", "byte 0xE9 at offset 3"),
        ("utf-16".encode("utf-16"), "byte 0xFF at offset 0"),
        (b"half a letter \xc3", "byte 0xC3 at offset 14"),
        (b"half a pair \xed\xa0\x80", "byte 0xED at offset 12"),
    ],
)
def test_a_file_that_is_not_plain_utf8_text_is_refused(write, content, words):
    path = write(content)
    message = refusal(load_corpus, path)
    assert words in message
    assert path in message


@pytest.mark.parametrize(
    ("name", "words"), [("missing.txt", "No such file"), (".", "Is a directory"), ("a\0b", "null byte")]
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path, name, words):
    message = refusal(load_corpus, f"{tmp_path}/{name}")
    assert words in message
    assert str(tmp_path) in message
    assert "give one readable UTF-8 text file" in message


@pytest.mark.parametrize(
    "read", [load_corpus, open_source, TokenFile.open, lambda path: make_tokenizer(path, None)],
    ids=["text", "text or ids", "token file", "tokenizer"],
)  # fmt: skip
def test_a_pipe_is_refused_before_a_byte_of_it_is_lost(read):
    reader, writer = os.pipe()
    os.write(writer, b"to be")
    os.close(writer)
    path = f"/dev/fd/{reader}"
    assert f"{path!r} is no regular file but a pipe or a device" in refusal(read, path)
    assert os.read(reader, 9) == b"to be"
    os.close(reader)


def test_an_unreadable_file_is_refused(write, monkeypatch):
    path = write(b"secret")

    def forbidden(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr("pathlib.Path.read_bytes", forbidden)
    assert f"cannot read '{path}': Permission denied;" in refusal(load_corpus, path)


def test_the_same_text_elsewhere_is_the_same_corpus():
    check_same_corpus(Corpus.of("to be", "here.txt").identity, Corpus.of("to be", "there.txt"))


def test_a_changed_text_is_refused_with_both_descriptions():
    recorded = Corpus.of("to be", "hamlet.txt").identity
    message = refusal(check_same_corpus, recorded, Corpus.of("to be or", "hamlet.txt"))
    assert "hamlet.txt (5 characters, sha256 " in message
    assert "hamlet.txt (8 characters, sha256 " in message
    assert "Python" not in message


def test_another_python_explains_another_built_in_corpus():
    recorded = load_corpus(None).identity | {"sha256": "0" * 64}
    assert "differs between Python versions" in refusal(check_same_corpus, recorded, load_corpus(None))


def test_tiny_shakespeare_splits_into_1003854_and_111540():
    train, validation = split_by_position("a" * 1_003_854 + "b" * 111_540, 0.1)
    assert (train, validation) == ("a" * 1_003_854, "b" * 111_540)


@example(characters=5, percent=80)
@given(st.integers(0, 10_000), st.integers(1, 99))
def test_a_split_cuts_once_where_exact_arithmetic_says(characters, percent):
    text = "".join(map(chr, range(characters)))
    train, validation = split_by_position(text, percent / 100)
    assert train + validation == text
    assert len(train) == int(characters * Fraction(100 - percent, 100))
