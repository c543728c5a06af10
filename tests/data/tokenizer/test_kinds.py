"""From a name, a path or a record to a tokenizer, and whether two mean the same."""

import json

import pytest

from jaxgpt.data import (
    ByteTokenizer,
    CharacterTokenizer,
    JsonTokenizer,
    check_same_tokenizer,
    choose_tokenizer,
    make_tokenizer,
    tokenizer_from_json,
)
from jaxgpt.data.tokenizer.kinds import CLASSES
from jaxgpt.data.tokenizer.special import with_roles

AB, BA = CharacterTokenizer(("a", "b")), CharacterTokenizer(("b", "a"))


def test_a_kind_is_made_by_its_name():
    assert make_tokenizer("characters", "to be") == CharacterTokenizer.train("to be")
    assert make_tokenizer("bytes", "to be") == ByteTokenizer()


def test_a_path_is_made_from_its_file_or_folder(tmp_path, learned):
    (tmp_path / "tokenizer.json").write_text(learned.document)
    assert make_tokenizer(str(tmp_path), "") == make_tokenizer(str(tmp_path / "tokenizer.json"), "") == learned


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "charcters",
            "data.tokenizer: 'charcters' is neither a kind nor a file; did you mean 'characters'? (kinds: c",
        ),
        ("gpt-2", "did you mean 'gpt2'?"),
        ("", "data.tokenizer: '' is neither a kind nor a file (kinds: characters, bytes, gpt2; or the path of a tok"),
        ("no/such.json", "'no/such.json' is neither a kind nor a file (kinds: "),
        ("a" * 5000, "is neither a kind nor a file"),
    ],
)
def test_a_name_that_is_neither_a_kind_nor_a_path_is_refused_with_the_nearest_kind(refusal, name, words):
    assert words in refusal(make_tokenizer, name, "text")


def test_a_folder_without_a_tokenizer_is_refused(refusal, tmp_path):
    message = refusal(make_tokenizer, str(tmp_path), "text")
    assert f"data.tokenizer: the folder {tmp_path} holds no tokenizer; it needs a tokenizer.json, " in message


def test_a_tokenizer_survives_json_whatever_its_kind(gpt2, learned):
    tokenizers = [AB, ByteTokenizer(), gpt2, learned, with_roles(gpt2, ["mask"])]
    assert {tokenizer.kind for tokenizer in tokenizers} == set(CLASSES)
    for tokenizer in tokenizers:
        again = tokenizer_from_json(json.loads(json.dumps(tokenizer.to_json())))
        assert again == tokenizer
        assert hash(again) == hash(tokenizer)
        assert again.fingerprint() == tokenizer.fingerprint()


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"kind": "charcters", "characters": ["a"]}, "'charcters'; did you mean 'characters'?"),
        (
            {"characters": ["a"]},
            "unknown tokenizer kind None (kinds: characters, bytes, gpt2, tokenizer.json, extended)",
        ),
        ({"kind": ["gpt2"]}, "unknown tokenizer kind ['gpt2']"),
        (["a"], "got list"),
        (None, "got NoneType"),
        ({"kind": "gpt2", "merges": "#version: 0.2\nh e\n"}, "these are not GPT-2's merges"),
    ],
)
def test_a_malformed_record_is_refused(refusal, record, words):
    assert words in refusal(tokenizer_from_json, record)


def test_two_tokenizers_of_one_meaning_are_the_same():
    check_same_tokenizer(AB, CharacterTokenizer.train("abba"), "a run")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (BA, "data.tokenizer has 2 ids, and id 0 means 'b', but a run was trained with 2 ids, and id 0 meant 'a'"),
        (CharacterTokenizer(("a", "c")), "and id 1 means 'c', but a run was trained with 2 ids, and id 1 meant 'b'"),
        (CharacterTokenizer(("a", "b", "c")), "data.tokenizer has 3 ids, but a run was trained with 2 ids; leave"),
        (ByteTokenizer(), "data.tokenizer has 256 ids, and id 0 means '\\x00'"),
    ],
)
def test_a_tokenizer_of_another_meaning_is_refused_with_the_first_difference(refusal, found, words):
    message = refusal(check_same_tokenizer, AB, found, "a run")
    assert words in message
    assert message.endswith("leave data.tokenizer out, the one it was trained with comes along")


def test_the_same_ids_with_other_rules_for_a_text_are_refused(refusal, learned):
    document = json.loads(learned.document) | {"normalizer": {"type": "Lowercase"}}
    lower = JsonTokenizer.of(json.dumps(document))
    assert lower.fingerprint() == learned.fingerprint()
    message = refusal(check_same_tokenizer, learned, lower, "a run")
    assert message.startswith("data.tokenizer has the ids that a run was trained with, but other rules for a text")


def test_without_a_text_the_characters_are_no_kind(refusal):
    message = refusal(make_tokenizer, "characters", None, option="--tokenizer")
    assert message.startswith(
        "--tokenizer: 'characters' is neither a kind nor a file (kinds: bytes, gpt2; or the path"
    )
    assert make_tokenizer("bytes", None) == ByteTokenizer()


def test_fresh_parameters_take_the_named_tokenizer_or_the_texts_characters():
    assert choose_tokenizer(None, "ab") == AB
    assert choose_tokenizer("bytes", "ab") == ByteTokenizer()


def test_trained_parameters_keep_theirs_and_refuse_another(refusal):
    assert choose_tokenizer(None, "xyz", trained=AB, owner="a run") is AB
    assert choose_tokenizer("characters", "ab", trained=AB, owner="a run") is AB
    assert "id 1 means 'z'" in refusal(choose_tokenizer, "characters", "az", trained=AB, owner="a run")


def test_parameters_trained_with_gpt2s_ids_need_no_file_to_be_asked_for_gpt2(gpt2, monkeypatch, refusal):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert choose_tokenizer("gpt2", "ab", trained=gpt2, owner="a run") is gpt2
    assert "data.tokenizer has 256 ids" in refusal(choose_tokenizer, "bytes", "ab", trained=gpt2, owner="a run")
    assert "which is not on this machine" in refusal(choose_tokenizer, "gpt2", "ab", trained=AB, owner="a run")


def test_trained_parameters_that_came_without_one_need_a_name(refusal):
    assert choose_tokenizer("bytes", "ab", owner="a run") == ByteTokenizer()
    message = refusal(choose_tokenizer, None, "ab", owner="runs/mine")
    assert message == "runs/mine holds no tokenizer; name the one it was trained with in data.tokenizer"
