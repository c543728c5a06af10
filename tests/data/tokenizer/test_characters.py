"""Characters to ids and back, exactly, and refusals that say which character and where."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgpt.config import RequestError
from jaxgpt.data import CharacterTokenizer, load_corpus, tokenizer_from_json

texts = st.text(min_size=1)
alphabets = st.lists(st.characters(exclude_categories=["Cs"]), min_size=2, unique=True).map(tuple)


def refusal(call, *arguments) -> str:
    with pytest.raises(RequestError) as caught:
        call(*arguments)
    return str(caught.value)


@given(texts)
def test_decoding_gives_back_the_text_that_was_encoded(text):
    tokenizer = CharacterTokenizer.train(text)
    ids = tokenizer.encode(text)
    assert ids.dtype == np.int32
    assert ids.shape == (len(text),)
    assert tokenizer.decode(ids) == tokenizer.decode(ids.tolist()) == text


@given(texts)
def test_training_numbers_the_distinct_characters_by_code_point(text):
    assert list(CharacterTokenizer.train(text).characters) == sorted(set(text))


@given(alphabets, st.data())
def test_ids_follow_the_order_of_the_characters_whatever_it_is(alphabet, data):
    text = data.draw(st.text(st.sampled_from(alphabet)))
    assert CharacterTokenizer(alphabet).encode(text).tolist() == [alphabet.index(c) for c in text]


@given(alphabets)
def test_a_tokenizer_survives_json(alphabet):
    tokenizer = CharacterTokenizer(alphabet)
    again = tokenizer_from_json(json.loads(json.dumps(tokenizer.to_json())))
    assert again == tokenizer
    assert again.fingerprint() == tokenizer.fingerprint()


@given(alphabets, st.data())
def test_swapping_the_meaning_of_two_ids_changes_the_fingerprint(alphabet, data):
    i, j = data.draw(st.lists(st.integers(0, len(alphabet) - 1), min_size=2, max_size=2, unique=True))
    swapped = list(alphabet)
    swapped[i], swapped[j] = swapped[j], swapped[i]
    assert CharacterTokenizer(tuple(swapped)).fingerprint() != CharacterTokenizer(alphabet).fingerprint()


def test_another_kind_of_tokenizer_has_another_fingerprint():
    class Other(CharacterTokenizer):
        kind = "other"

    assert Other(("a", "b")).fingerprint() != CharacterTokenizer(("a", "b")).fingerprint()


def test_tiny_shakespeare_has_65_characters_and_comes_back_whole(shakespeare_path):
    text = load_corpus(shakespeare_path).text
    tokenizer = CharacterTokenizer.train(text)
    ids = tokenizer.encode(text)
    assert tokenizer.vocab_size == 65
    assert (len(ids), int(ids.min()), int(ids.max())) == (1_115_394, 0, 64)
    assert tokenizer.decode(ids) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("abxb", "'x' (U+0078) at position 2 is not among the 2 characters"),
        ("a\r\nb", r"'\r' (U+000D) at position 1 "),
        ("b🙂", "(U+1F642) at position 1 "),
        ("\udcff", "(U+DCFF) at position 0 "),
    ],
)
def test_an_unknown_character_is_named_with_its_place(text, words):
    message = refusal(CharacterTokenizer(("a", "b")).encode, text)
    assert words in message
    assert "train on a text that contains it" in message


def test_a_character_between_the_known_ones_is_unknown():
    assert "'b' (U+0062) at position 1" in refusal(CharacterTokenizer(("a", "c")).encode, "cb")


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([0, 1, 2], "token id 2 at position 2 is outside 0..1 (vocabulary of 2)"),
        ([-1], "token id -1 at position 0 is outside 0..1 (vocabulary of 2)"),
        ([0.0, 1.0], "vocabulary of 2), got float64 such as 0.0"),
        ([True], "got bool such as True"),
        (["a"], "such as 'a'"),
        ([2**70], f"such as {2**70}"),
        ([[0, 1]], "expected one row of ids, got shape (1, 2)"),
    ],
)
def test_decoding_refuses_what_is_no_id(ids, words):
    assert words in refusal(CharacterTokenizer(("a", "b")).decode, ids)


def test_no_ids_are_no_text():
    tokenizer = CharacterTokenizer(("a",))
    assert tokenizer.decode([]) == ""
    assert tokenizer.encode("").shape == (0,)


@pytest.mark.parametrize(
    ("characters", "words"),
    [
        ((), "at least one character"),
        (("a", "bc"), "entry 1 is 'bc'"),
        (("a", ""), "entry 1 is ''"),
        (("a", 7), "entry 1 is 7"),
        (("\ud800",), "entry 0 is '\\ud800'"),
        (("a", "b", "a"), "'a' (U+0061) is listed for id 0 and again for id 2"),
    ],
)
def test_a_vocabulary_is_one_distinct_character_per_id(characters, words):
    assert words in refusal(CharacterTokenizer, characters)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"kind": "characters"}, "got 'kind'"),
        ({"kind": "characters", "characters": "ab"}, "expected the fields 'kind' and 'characters' (a list)"),
        ({"kind": "characters", "characters": ["a"], "merges": []}, "'merges'"),
        ({"kind": "characters", "characters": ["a", "a"]}, "again for id 1"),
    ],
)
def test_a_malformed_record_is_refused(record, words):
    assert words in refusal(tokenizer_from_json, record)


def test_a_class_reads_only_its_own_kind():
    record = {"kind": "bytes", "characters": ["a"]}
    assert "expected kind 'characters', got 'bytes'" in refusal(CharacterTokenizer.from_json, record)


def test_an_empty_text_makes_no_tokenizer():
    assert "empty text" in refusal(CharacterTokenizer.train, "")


def test_a_tokenizer_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        CharacterTokenizer(("a",)).characters = ("b",)
