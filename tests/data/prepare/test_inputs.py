"""Which files are read, and what is wrong with one is refused with its place."""

import errno
import json
import os
from pathlib import Path

import pytest
from preparing import LINES, documents_in, ignore, refusal, request_for

from jaxgpt.data import CharacterTokenizer
from jaxgpt.data.prepare import find_inputs, prepare
from jaxgpt.data.prepare.preparation import characters_of


def test_a_character_that_is_none_is_refused_with_its_place(folder):
    Path("a.jsonl").write_text('{"text": "ba"}\n{"text": "b\\ud800"}\n')
    message = refusal(characters_of, find_inputs(["a.jsonl"]).inputs, "text", ignore)
    assert message.startswith("a.jsonl, line 2: character '\\ud800' (U+D800) at position 1 is half a surrogate pair")


def test_an_input_that_cannot_be_read_on_is_named(folder, monkeypatch):
    Path("a.txt").write_text("to be")
    request = request_for("a.txt")

    def broken(file):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("jaxgpt.data.prepare.reading._state", broken)
    message = refusal(prepare, request, ignore)
    assert message == "INPUT: cannot read 'a.txt': Input/output error; make it readable"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.txt", b"good\n" * 2000 + b"caf\xe9", "'a.txt' is not UTF-8: byte 0xE9 at offset 10003"),
        ("a.jsonl", b'{"text": "a"}\n\n{"text": "b"}', "a.jsonl, line 2: it is empty; take the line out"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "b"', "a.jsonl, line 2: not JSON (Expecting ',' delimiter"),
        ("a.jsonl", b'["text"]', """a.jsonl, line 1: expected a JSON object with the field 'text', got ["text"]"""),
        ("a.jsonl", b'{"body": "a", "id": 1}', "no field 'text' (it has 'body', 'id'); name the field that holds"),
        ("a.jsonl", b'{"text": 3}', "a.jsonl, line 1: its field 'text' is 3, expected text"),
        ("a.jsonl", b'{"text": ""}', "a.jsonl, line 1: its field 'text' is empty; take the line out"),
        ("a.jsonl", b'{"text": "\xe9"}', "a.jsonl, line 1: not UTF-8: byte 0xE9 at byte 10 of the line"),
        ("a.jsonl", b'{"text": "\\ud800"}', "a.jsonl, line 1: character '\\ud800' (U+D800) at position 0 is half"),
        ("a.jsonl", b"[" * 100_000, "a.jsonl, line 1: not JSON ("),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_wrong_input_is_refused_with_its_place(folder, small_blocks, name, content, words):
    Path(name).write_bytes(content)
    assert words in refusal(prepare, request_for(name), ignore)
    if len(content) < 1000:
        assert os.listdir() == [name]  # nothing was worth keeping


def test_a_character_that_the_tokenizer_lacks_is_refused_with_its_place(folder, small_blocks):
    Path("a.txt").write_text("ab\n" * 4000 + "c")
    tokenizer = CharacterTokenizer(tuple("ab\n"))
    message = refusal(prepare, request_for("a.txt", tokenizer=tokenizer), ignore)
    assert "a.txt, in the text from byte 12000 on: character 'c' (U+0063) at position 0 is not among" in message


def test_what_stands_before_a_mistake_is_kept(folder, small_blocks):
    lines = [json.dumps({"text": f"{number} words"}) + "\n" for number in range(2000)]
    Path("a.jsonl").write_text("".join([*lines[:1500], "oops\n", *lines[1500:]]))
    assert "line 1501: not JSON" in refusal(prepare, request_for("a.jsonl"), ignore)
    Path("a.jsonl").write_text("".join(lines))
    assert prepare(request_for("a.jsonl"), ignore).resumed > 5000
    assert documents_in("out.tokens") == [f"{number} words" for number in range(2000)]


def test_a_file_that_changes_while_it_is_read_is_refused(folder, small_blocks):
    Path("a.txt").write_text(LINES)

    def write(what, done, total):
        with Path("a.txt").open("a") as file:
            file.write("more")

    assert "'a.txt' changed while it was read" in refusal(prepare, request_for("a.txt"), write)


def test_a_file_that_changes_before_it_is_read_is_refused(folder):
    Path("a.txt").write_text(LINES)
    request = request_for("a.txt")
    Path("a.txt").write_text(LINES + "more")
    assert "'a.txt' changed while it was read" in refusal(prepare, request, ignore)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["gone.txt"], "INPUT: cannot read 'gone.txt': No such file or directory; give readable files or folders"),
        (["a\0b"], "embedded null byte"),
        (["empty.txt"], "'empty.txt' is empty"),
        (["bom.txt"], "'bom.txt' begins with a byte order mark"),
        (["packed.gz"], "'packed.gz' is no plain text by its ending; unpack it first"),
        (
            ["pictures"],
            "the folder 'pictures' has no file to read that ends in .txt, .text, .md, .jsonl, .ndjson (it has a.png)",
        ),
        (["a.txt", "./a.txt"], "INPUT: a.txt is the same file as a.txt; name each once"),
        (["pipe"], "'pipe' is no regular file; to go on after an interruption, inputs are read again"),
    ],
    ids=str,
)
def test_an_input_that_cannot_be_taken_is_refused(folder, names, words):
    Path("a.txt").write_text("a")
    Path("empty.txt").touch()
    Path("bom.txt").write_bytes(b"\xef\xbb\xbfa")
    Path("packed.gz").write_bytes(b"\x1f\x8b")
    Path("pictures").mkdir()
    Path("pictures/a.png").write_bytes(b"a")
    os.mkfifo("pipe")
    assert words in refusal(find_inputs, names)


def test_a_folder_is_read_in_the_order_of_its_names(folder):
    for name in (
        *("t/b/2.txt", "t/b/1.md", "t/a.jsonl", "t/c.txt", "t/x.png", "t/README"),
        *("t/.hidden.txt", "t/b/.git/a.txt", "other/a.txt"),
    ):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("a")
    Path("t/link").symlink_to("../other")
    Path("t/d.txt").symlink_to("../other/a.txt")
    found = find_inputs(["t"])
    assert [str(one.path) for one in found.inputs] == ["t/a.jsonl", "t/c.txt", "t/d.txt", "t/b/1.md", "t/b/2.txt"]
    assert found.skipped == {
        "by their ending neither text nor JSONL": ["t/README", "t/x.png"],
        "hidden, their names begin with a dot": ["t/.hidden.txt", "t/b/.git"],
        "links to folders": ["t/link"],
    }


def test_what_is_named_itself_is_read_though_hidden_or_a_link(folder):
    Path(".t").mkdir()
    Path(".t/a.txt").write_text("a")
    Path(".b").write_text("b")
    Path("link").symlink_to(".t")
    assert [str(one.path) for one in find_inputs([".t", ".b"]).inputs] == [".t/a.txt", ".b"]
    assert [str(one.path) for one in find_inputs(["link"]).inputs] == ["link/a.txt"]


def test_a_file_of_a_folder_that_cannot_be_read_is_named(folder):
    Path("t").mkdir()
    Path("t/a.txt").symlink_to("gone")
    assert "INPUT: cannot read 't/a.txt': No such file or directory" in refusal(find_inputs, ["t"])
