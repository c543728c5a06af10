"""GPT-2's ids, from its merges alone, against the published vocabulary and another library."""

import json
import time

import numpy as np
import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jaxgpt.data import Gpt2Tokenizer, load_corpus, tokenizer_from_json

# What the published encoder gives, as other projects print it.
KNOWN = {
    "Hello world": [15496, 995],
    "hello world": [31373, 995],
    "<|endoftext|>": [27, 91, 437, 1659, 5239, 91, 29],
    "\n\n": [628],
    "": [],
}


@pytest.fixture(scope="session")
def other(gpt2_folder):
    """The tokenizers library's reading of the two published files."""
    model = tokenizers.models.BPE.from_file(str(gpt2_folder / "encoder.json"), str(gpt2_folder / "vocab.bpe"))
    engine = tokenizers.Tokenizer(model)
    engine.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = tokenizers.decoders.ByteLevel()
    return engine


@pytest.mark.parametrize("text", KNOWN)
def test_known_texts_have_their_known_ids(gpt2, text):
    ids = gpt2.encode(text)
    assert (ids.dtype, ids.tolist()) == (np.int32, KNOWN[text])


def test_the_merges_alone_give_the_published_vocabulary(gpt2, gpt2_folder):
    published = json.loads((gpt2_folder / "encoder.json").read_text())
    assert {token: place for place, token in enumerate(gpt2.tokens)} == published
    assert gpt2.vocab_size == len(published) == 50257


def test_any_text_has_the_ids_that_the_tokenizers_library_gives_and_comes_back(gpt2, other, texts):
    @settings(deadline=None)
    @example("  a\n\n  b \n")
    @example("I'LL we'll 've")
    @given(texts)
    def check(text):
        ids = gpt2.encode(text).tolist()
        assert ids == other.encode(text).ids
        assert gpt2.decode(ids) == text

    check()


def test_any_ids_decode_as_the_tokenizers_library_decodes_them(gpt2, other):
    @settings(deadline=None)
    @example([447, 247])
    @example([447, 15496])
    @given(st.lists(st.integers(0, 50255)))
    def check(ids):
        assert gpt2.decode(ids) == other.decode(ids)

    check()


def test_tiny_shakespeare_is_301966_and_36059_tokens(gpt2, shakespeare_path):
    text = load_corpus(shakespeare_path).text
    cut = len(text) * 9 // 10
    assert (len(gpt2.encode(text[:cut])), len(gpt2.encode(text[cut:]))) == (301_966, 36_059)


@pytest.mark.parametrize("part", ["a", "ab", "0123456789", "!", "é", "漢字", " ", "\n"])
def test_a_long_text_without_a_place_to_cut_takes_a_second_not_hours(gpt2, part):
    text = part * (300_000 // len(part))
    start = time.perf_counter()
    assert gpt2.decode(gpt2.encode(text)) == text
    assert time.perf_counter() - start < 20  # quadratic would be 10^11 steps


def test_a_million_blanks_are_refused(gpt2, refusal):
    assert "shorten its runs of white space to less than a million" in refusal(gpt2.encode, " " * 1_000_001)


def test_the_end_of_a_text_is_special_only_where_it_is_asked_for(gpt2):
    assert gpt2.special_ids == {"bos": 50256, "eos": 50256}
    assert 50256 not in gpt2.encode("a<|endoftext|>b")
    assert gpt2.encode("a<|endoftext|>b", parse_special=True).tolist() == [64, 50256, 65]
    assert gpt2.decode([64, 50256, 65]) == "a<|endoftext|>b"


def test_half_a_surrogate_pair_is_refused(gpt2, refusal):
    assert "(U+D83D) at position 1 is half a surrogate pair" in refusal(gpt2.encode, "a\ud83d")


def test_an_id_outside_the_vocabulary_is_refused(gpt2, refusal):
    assert "token id 50257 at position 0 is outside 0..50256" in refusal(gpt2.decode, [50257])


def test_it_survives_json_without_any_file(gpt2):
    again = tokenizer_from_json(json.loads(json.dumps(gpt2.to_json())))
    assert again == gpt2
    assert again.encode("Hello world").tolist() == [15496, 995]


@pytest.mark.parametrize(
    "change",
    [lambda m: m[:-100], lambda m: m.replace("Ġ t\n", "", 1), lambda m: m.replace("\n", "\r\n"), lambda m: ""],
    ids=["cut", "a merge less", "line ends", "empty"],
)
def test_merges_that_are_not_gpt2s_are_refused(gpt2, refusal, change):
    assert "these are not GPT-2's merges (sha256 " in refusal(Gpt2Tokenizer, change(gpt2.merges))


def test_its_record_and_its_repr_are_no_longer_than_they_need_be(gpt2):
    assert repr(gpt2) == "Gpt2Tokenizer()"
    assert len(gpt2.to_json()["merges"].encode()) == 456_318
