"""The file has the ids of the texts, whatever interrupts its making, and what is wrong is refused in words."""

import dataclasses
import errno
import fcntl
import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgpt.config import RequestError, WorkError
from jaxgpt.data import ByteTokenizer, CharacterTokenizer, JsonTokenizer, TokenFile, train_bpe
from jaxgpt.data.prepare import Request, find_inputs, prepare
from jaxgpt.data.prepare.journal import Entry
from jaxgpt.data.prepare.partial import PartialFile, journal_path, partial_path
from jaxgpt.data.prepare.preparation import characters_of
from jaxgpt.data.tokenizer.special import with_roles

ENDING = with_roles(ByteTokenizer(), ["eos"])
LINES = "".join(f"line {number} of a play, with don't and 漢字.\n" for number in range(3000))


class Killed(BaseException):
    """The process ends here."""


def ignore(what, done, total):
    """Watch nothing."""


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


def request_for(*names, tokenizer=ENDING, out="out.tokens", field="text", workers=2):
    end_id = tokenizer.special_ids.get("eos")
    return Request(find_inputs(names).inputs, tokenizer, Path(out), field, end_id, workers)


def refusal(call, *arguments, kind=RequestError) -> str:
    with pytest.raises(kind) as caught:
        call(*arguments)
    return str(caught.value)


def documents_in(path):
    """The texts between end tokens."""
    tokens = TokenFile.open(path)
    tokens.check()
    end = tokens.header.end_id
    texts, text = [], []
    for id in tokens.ids_N.tolist():
        if id == end:
            texts.append(tokens.tokenizer.decode(text))
            text = []
        else:
            text.append(id)
    assert not text
    assert tokens.header.documents == len(texts)
    return texts


def test_each_file_and_each_line_is_a_document(folder):
    Path("b").mkdir()
    Path("b/one.txt").write_text("first\r\n\nsecond\n")
    Path("b/two.jsonl").write_text('{"text": "ü\\n"}\n{"id": 1, "text": "漢字"}\r\n{"text":"last"}')
    Path("a.text").write_text("zero")
    prepared = prepare(request_for("b", "a.text"), ignore)
    assert documents_in("out.tokens") == ["first\r\n\nsecond\n", "ü\n", "漢字", "last", "zero"]
    assert sorted(os.listdir()) == ["a.text", "b", "out.tokens"]
    assert prepared.text_bytes == len("first\r\n\nsecond\nü\n漢字lastzero".encode())
    lists = "".join(
        f"{hashlib.sha256(Path(name).read_bytes()).hexdigest()}  {name}\n"
        for name in ("b/one.txt", "b/two.jsonl", "a.text")
    )
    assert hashlib.sha256(lists.encode()).hexdigest() in prepared.header.source


def test_the_source_names_the_file_and_its_hash(folder):
    Path("a.txt").write_text("to be")
    digest = hashlib.sha256(b"to be").hexdigest()
    assert prepare(request_for("a.txt"), ignore).header.source == f"a.txt (5 bytes, sha256 {digest})"


def test_nothing_stands_between_documents_where_there_is_no_end_token(folder):
    Path("a.jsonl").write_text('{"text": "ab"}\n{"text": "c"}\n')
    prepare(request_for("a.jsonl", tokenizer=ByteTokenizer()), ignore)
    tokens = TokenFile.open("out.tokens")
    assert (tokens.ids_N.tolist(), tokens.header.end_id, tokens.header.documents) == ([97, 98, 99], None, 2)


@settings(max_examples=30, deadline=None)
@given(documents=st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1), size=st.integers(8, 64))
def test_documents_come_back_whatever_the_blocks(tmp_path_factory, documents, size):
    folder = tmp_path_factory.mktemp("any")
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("jaxgpt.data.prepare.reading.BLOCK", size)
        prepare(request_for(folder / "a.jsonl", out=folder / "out.tokens"), ignore)
    assert documents_in(folder / "out.tokens") == documents


def test_pieces_and_workers_change_no_id(folder, small_blocks):
    tokenizer = train_bpe(LINES[:4000], 280, ["<|endoftext|>"])
    Path("a.txt").write_text(LINES)
    for workers in (1, 3):
        prepare(request_for("a.txt", tokenizer=tokenizer, out=f"{workers}.tokens", workers=workers), ignore)
    expected = [*tokenizer.encode(LINES).tolist(), tokenizer.special_ids["eos"]]
    assert TokenFile.open("1.tokens").ids_N.tolist() == expected
    assert Path("1.tokens").read_bytes() == Path("3.tokens").read_bytes()


def test_a_tokenizer_that_looks_further_gets_documents_whole(folder, small_blocks):
    document = json.loads(train_bpe(LINES[:4000], 280).document)
    document["pre_tokenizer"]["add_prefix_space"] = True
    tokenizer = JsonTokenizer.of(json.dumps(document))
    Path("a.txt").write_text(LINES)
    prepare(request_for("a.txt", tokenizer=tokenizer), ignore)
    assert TokenFile.open("out.tokens").ids_N.tolist() == tokenizer.encode(LINES).tolist()


def test_characters_are_those_of_all_documents(folder):
    Path("a.jsonl").write_text('{"text": "ba"}\n{"text": "\\u00fc"}\n')
    Path("b.txt").write_text("c\n")
    inputs = find_inputs(["a.jsonl", "b.txt"]).inputs
    assert characters_of(inputs, "text", ignore) == CharacterTokenizer(("\n", "a", "b", "c", "ü"))


def test_a_character_that_is_none_is_refused_with_its_place(folder):
    Path("a.jsonl").write_text('{"text": "ba"}\n{"text": "b\\ud800"}\n')
    message = refusal(characters_of, find_inputs(["a.jsonl"]).inputs, "text", ignore)
    assert message.startswith("a.jsonl, line 2: character '\\ud800' (U+D800) at position 1 is half a surrogate pair")


def interrupted(request, monkeypatch, calls, after=0):
    """Run until the disk has been asked for `calls` things, then end as a killed process does, `after` bytes late."""
    asked = 0
    originals = {name: getattr(os, name) for name in ("pwrite", "fsync", "ftruncate", "link")}

    def count(name):
        def call(*arguments):
            nonlocal asked
            asked += 1
            if asked == calls:
                if name == "pwrite" and after:
                    originals[name](arguments[0], bytes(arguments[1])[:after], arguments[2])
                raise Killed
            if asked > calls:  # a dead process cleans nothing up
                raise Killed
            return originals[name](*arguments)

        return call

    def stay(path, missing_ok=False):
        if asked >= calls:
            raise Killed
        os.unlink(path) if path.exists() or not missing_ok else None

    with monkeypatch.context() as patched:
        for name in originals:
            patched.setattr(os, name, count(name))
        patched.setattr(Path, "unlink", stay)
        try:
            prepare(request, ignore)
        except Killed:
            return True
    return False


def test_killed_at_any_moment_it_goes_on_and_the_file_is_the_same(folder, small_blocks, monkeypatch):
    Path("a.txt").write_text(LINES[:20_000])
    Path("b.jsonl").write_text("".join(json.dumps({"text": f"{i} words"}) + "\n" for i in range(800)))
    request = request_for("a.txt", "b.jsonl")
    prepare(dataclasses.replace(request, out=Path("whole.tokens")), ignore)
    whole = Path("whole.tokens").read_bytes()
    moments = 0
    for calls in range(1, 1000, 3):
        killed = interrupted(request, monkeypatch, calls, after=calls % 7)
        assert killed or calls > 30
        prepare(request, ignore)
        assert Path("out.tokens").read_bytes() == whole
        assert not journal_path(request.out).exists()
        Path("out.tokens").unlink()
        moments += killed
        if not killed:
            break
    assert moments > 10


def test_killed_again_and_again_it_arrives(folder, small_blocks, monkeypatch):
    Path("a.txt").write_text(LINES)
    request = request_for("a.txt")
    kills = 0
    while interrupted(request, monkeypatch, 40):
        kills += 1
    assert kills > 2
    assert documents_in("out.tokens") == [LINES]


@pytest.fixture
def begun(folder, small_blocks, monkeypatch):
    """A request that was killed half way."""
    Path("a.txt").write_text(LINES)
    request = request_for("a.txt")
    assert interrupted(request, monkeypatch, 40)
    return request


def test_what_is_done_is_not_done_again(begun):
    prepared = prepare(begun, ignore)
    assert prepared.resumed > 10_000
    assert prepared.read == len(LINES.encode()) - prepared.resumed
    assert documents_in("out.tokens") == [LINES]


@pytest.mark.parametrize("damage", ["flip early", "flip late", "cut", "gone", "journal flip", "journal cut"])
def test_damage_is_noticed_and_made_again(begun, damage, capsys):
    path = journal_path(begun.out) if damage.startswith("journal") else partial_path(begun.out)
    content = bytearray(path.read_bytes())
    place = {"flip early": -20_000, "flip late": -10_000, "journal flip": len(content) // 2}.get(damage)
    if damage == "gone":
        path.unlink()
    else:
        if place is not None:
            content[place] ^= 1
        path.write_bytes(content if place is not None else content[: -len(content) // 3])
    prepare(begun, ignore)
    assert documents_in("out.tokens") == [LINES]
    assert ("is damaged after" in capsys.readouterr().err) == (not damage.startswith("journal"))


def test_an_input_that_changed_in_what_was_read_is_refused(begun):
    Path("a.txt").write_text(LINES.replace("line 3 ", "LINE 3 "))
    message = refusal(prepare, begun, ignore)
    assert "what an earlier call read of a.txt is not there any more, a file has changed" in message
    assert "or delete out.tokens.partial and out.tokens.journal to begin again" in message


def test_an_input_may_be_mended_behind_what_was_read(begun):
    mended = LINES + "the end\n"
    Path("a.txt").write_text(mended)
    prepare(request_for("a.txt"), ignore)
    assert documents_in("out.tokens") == [mended]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tokenizer": ByteTokenizer(), "end_id": None}, "begun with another tokenizer, end token 256"),
        ({"end_id": None}, "begun with end token 256; repeat the command it was begun with, or delete"),
        ({"field": "body"}, "begun with field 'text'"),
        ({"inputs": []}, "begun with other files, or other spellings of their names; repeat"),
    ],
    ids=str,
)
def test_another_request_is_not_mixed_with_the_first(begun, change, words):
    assert words in refusal(prepare, dataclasses.replace(begun, **change), ignore)
    prepare(begun, ignore)
    assert documents_in("out.tokens") == [LINES]


def test_other_libraries_do_not_go_on(begun, monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.0.1")
    assert "out.tokens.partial was begun with other versions of the libraries" in refusal(prepare, begun, ignore)


def test_a_file_that_was_given_its_name_meanwhile_is_not_held(folder, monkeypatch):
    Path("a.txt").write_text("to be")
    original = fcntl.flock

    def late(descriptor, how):
        partial_path(Path("out.tokens")).rename("out.tokens")
        original(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    assert "another process prepares out.tokens" in refusal(prepare, request_for("a.txt"), ignore)


def test_a_state_is_secured_once(folder):
    Path("a.txt").write_text("to be")
    request = request_for("a.txt")
    with PartialFile.hold(request.out, request.header(), request.identity()) as partial:
        partial.resume(lambda size: None)
        partial.append([np.array([7], "<u2").data], Entry(ids=1))
        partial.secure()
        partial.secure()
    assert len(journal_path(request.out).read_bytes().splitlines()) == 2  # what was asked, and the state


def test_two_at_once_are_refused(folder):
    Path("a.txt").write_text("to be")
    request = request_for("a.txt")
    with PartialFile.hold(request.out, request.header(), request.identity()):
        assert "another process prepares out.tokens" in refusal(prepare, request, ignore)
    prepare(request, ignore)


def test_a_file_that_is_done_is_known_again(folder, monkeypatch):
    Path("a.txt").write_text("to be")
    request = request_for("a.txt")
    first = prepare(request, ignore)
    content = Path("out.tokens").read_bytes()
    again = prepare(request, ignore)
    assert (again.header, again.text_bytes) == (first.header, None)
    assert Path("out.tokens").read_bytes() == content
    assert sorted(os.listdir()) == ["a.txt", "out.tokens"]


def test_killed_after_the_name_was_given_the_next_call_tidies_up(folder, monkeypatch):
    Path("a.txt").write_text("to be")
    request = request_for("a.txt")

    def killed(path, missing_ok=False):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", killed)
        with pytest.raises(Killed):
            prepare(request, ignore)
    assert sorted(os.listdir()) == ["a.txt", "out.tokens", "out.tokens.journal", "out.tokens.partial"]
    assert prepare(request, ignore).text_bytes is None
    assert sorted(os.listdir()) == ["a.txt", "out.tokens"]


@pytest.mark.parametrize("name", ["out.tokens.partial", "out.tokens.journal"])
def test_a_file_that_is_done_leaves_other_files_beside_it(folder, name):
    Path("a.txt").write_text("to be")
    prepare(request_for("a.txt"), ignore)
    Path(name).write_text("mine")
    prepare(request_for("a.txt"), ignore)
    assert Path(name).read_text() == "mine"


def test_what_is_begun_beside_a_file_that_is_done_stays(begun):
    prepare(dataclasses.replace(begun, out=Path("whole.tokens")), ignore)
    Path("whole.tokens").rename("out.tokens")
    assert prepare(begun, ignore).text_bytes is None
    Path("out.tokens").unlink()
    assert prepare(begun, ignore).resumed > 10_000


def test_another_file_is_never_overwritten(folder):
    Path("a.txt").write_text("to be")
    request = request_for("a.txt")
    prepare(request, ignore)
    refused = "--out out.tokens is there already, and nothing is overwritten; name another file or move it (it is of "
    assert f"{refused}another end id)" in refusal(prepare, dataclasses.replace(request, end_id=None), ignore)
    digest = hashlib.sha256(b"to be").hexdigest()
    was, now = (f"{name} (5 bytes, sha256 {digest})" for name in ("a.txt", "../here/a.txt"))
    assert f"{refused}another source: {was}, not {now}; spelling counts)" in refusal(
        prepare, request_for("../here/a.txt"), ignore
    )
    Path("a.txt").write_text("to bE")
    assert f"{refused}another source: a.txt (" in refusal(prepare, request, ignore)
    damaged = bytearray(Path("out.tokens").read_bytes())
    damaged[-1] ^= 1
    Path("a.txt").write_text("to be")
    Path("out.tokens").write_bytes(damaged)
    assert "its 6 ids have the sha256" in refusal(prepare, request, ignore)
    Path("out.tokens").write_text("notes")
    assert "nothing is overwritten; name another file or move it (out.tokens: this is no" in refusal(
        prepare, request, ignore
    )


@pytest.mark.parametrize(
    "theirs",
    [
        {"out.tokens.partial": b"notes"},
        {"out.tokens.journal": b"notes\n"},
        {"out.tokens.partial": b"notes", "out.tokens.journal": b""},
        {"out.tokens.partial": b"", "out.tokens.journal": b"0123456789abcdef {}\n"},
    ],
    ids=str,
)
def test_files_that_no_call_has_left_stay_as_they_are(folder, theirs):
    Path("a.txt").write_text("to be")
    for name, content in theirs.items():
        Path(name).write_bytes(content)
    message = refusal(prepare, request_for("a.txt"), ignore)
    assert message.startswith(
        f"nothing says that an earlier call has left {' and '.join(theirs)} (out.tokens.journal"
    )
    assert {name: Path(name).read_bytes() for name in os.listdir()} == theirs | {"a.txt": b"to be"}


def test_a_link_is_not_followed_to_what_it_names(folder):
    Path("a.txt").write_text("to be")
    Path("empty").touch()
    Path("out.tokens.partial").symlink_to("empty")
    assert "nothing says that an earlier call has left out.tokens.partial" in refusal(
        prepare, request_for("a.txt"), ignore
    )


def test_a_journal_whose_beginning_is_damaged_is_not_thrown_away(begun):
    path = journal_path(begun.out)
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)
    assert "(out.tokens.journal is gone, damaged or another program's)" in refusal(prepare, begun, ignore)
    content[20] ^= 1
    path.write_bytes(content)
    assert prepare(begun, ignore).resumed > 10_000


def test_a_journal_of_another_version_is_refused_in_words(begun):
    path = journal_path(begun.out)
    begin, entry, *_ = path.read_bytes().splitlines(keepends=True)
    record = json.loads(entry.partition(b" ")[2])
    record["tokens"] = record.pop("ids")
    content = json.dumps(record).encode()
    path.write_bytes(begin + hashlib.sha256(content).hexdigest()[:16].encode() + b" " + content + b"\n")
    message = refusal(prepare, begun, ignore)
    assert message.startswith("out.tokens.journal: an entry has other fields than this version of the program writes")
    assert partial_path(begun.out).exists()


@pytest.mark.parametrize("name", ["out.tokens", "out.tokens.partial", "out.tokens.journal", "link"])
def test_an_input_that_would_be_written_is_refused(folder, name):
    Path("out.tokens").write_text("to be")
    Path("link").symlink_to("out.tokens")
    Path(name).write_text("to be")
    refused = f"INPUT: '{name}' is {name.replace('link', 'out.tokens')}, which this command writes; name another"
    assert refused in refusal(prepare, request_for(name), ignore)
    assert Path(name).read_text() == "to be"


def refused_link(source, target):
    raise PermissionError(errno.EPERM, "Operation not permitted")


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_appears_during_the_work_stays(folder, monkeypatch, has_links):
    Path("a.txt").write_text("to be")
    request = request_for("a.txt")
    if not has_links:
        monkeypatch.setattr(os, "link", refused_link)
    message = refusal(prepare, request, lambda *_: Path("out.tokens").write_text("mine"), kind=WorkError)
    assert message == (
        "out.tokens has appeared since this was begun, and nothing is overwritten; all that was done is kept in "
        "out.tokens.partial: move out.tokens away, then run the same command again"
    )
    assert Path("out.tokens").read_text() == "mine"
    Path("out.tokens").unlink()
    assert prepare(request, ignore).resumed == 6
    assert documents_in("out.tokens") == ["to be"]
    assert sorted(os.listdir()) == ["a.txt", "out.tokens"]


def test_what_is_not_the_disks_fault_is_not_called_so(folder, monkeypatch):
    Path("a.txt").write_text("to be")

    def broken(path, flags, *mode):
        raise OSError(errno.EMFILE, "Too many open files", str(path))

    monkeypatch.setattr(os, "open", broken)
    assert refusal(prepare, request_for("a.txt"), ignore, kind=WorkError) == (
        "cannot write out.tokens.partial: Too many open files; what was written so far is kept: mend that, then run "
        "the same command again"
    )


def test_an_input_that_cannot_be_read_on_is_named(folder, monkeypatch):
    Path("a.txt").write_text("to be")
    request = request_for("a.txt")

    def broken(file):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("jaxgpt.data.prepare.reading._state", broken)
    message = refusal(prepare, request, ignore)
    assert message == "INPUT: cannot read 'a.txt': Input/output error; make it readable"


def test_a_full_disk_is_one_message_and_goes_on_later(folder, small_blocks, monkeypatch):
    Path("a.txt").write_text(LINES)
    request = request_for("a.txt")
    original = os.pwrite

    def full(descriptor, content, place):
        if place > 100_000:
            raise OSError(28, "No space left on device")
        return original(descriptor, content, place)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        message = refusal(prepare, request, ignore, kind=WorkError)
    assert message == (
        "cannot write out.tokens.partial: No space left on device; what was written so far is kept: free space, then "
        "run the same command again"
    )
    assert prepare(request, ignore).resumed > 10_000
    assert documents_in("out.tokens") == [LINES]


def test_a_watch_may_stop_it_and_nothing_is_lost(folder, small_blocks, monkeypatch):
    monkeypatch.setattr("jaxgpt.data.prepare.preparation._SECURE_EVERY", 1e9)
    Path("a.txt").write_text(LINES)

    def stop(what, done, total):
        if done > 50_000:
            raise Killed

    with pytest.raises(Killed):
        prepare(request_for("a.txt"), stop)
    assert prepare(request_for("a.txt"), ignore).resumed > 50_000
    assert documents_in("out.tokens") == [LINES]


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
