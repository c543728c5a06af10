"""Nothing is written over or taken away but what a call has made; what it has begun goes on as it was asked."""

import dataclasses
import errno
import fcntl
import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
from preparing import LINES, Killed, documents_in, ignore, refusal, request_for

from jaxgpt.config import WorkError
from jaxgpt.data import ByteTokenizer
from jaxgpt.data.prepare import prepare
from jaxgpt.data.prepare.journal import Entry
from jaxgpt.data.prepare.partial import PartialFile, journal_path, partial_path


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
