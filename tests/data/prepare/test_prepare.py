"""The file has the ids of the texts, whatever interrupts its making."""

import dataclasses
import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from preparing import LINES, Killed, documents_in, ignore, interrupted, refusal, request_for

from jaxgpt.data import ByteTokenizer, CharacterTokenizer, JsonTokenizer, TokenFile, train_bpe
from jaxgpt.data.prepare import find_inputs, prepare
from jaxgpt.data.prepare.partial import journal_path, partial_path
from jaxgpt.data.prepare.preparation import characters_of


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
