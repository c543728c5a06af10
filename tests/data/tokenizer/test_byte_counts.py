"""How many bytes of a text each id stands for, whichever kind of tokenizer made it."""

import json

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgpt.data import ByteTokenizer, CharacterTokenizer, JsonTokenizer, tokenizer_from_path
from jaxgpt.data.tokenizer.gpt2 import BYTE_SYMBOLS
from jaxgpt.data.tokenizer.special import with_roles

TEXT = "Once é🙂 漢字, e\u0301 \n\n  to be\t"


def changed(tokenizer, **parts):
    """The tokenizer of a changed document."""
    return JsonTokenizer.of(json.dumps(json.loads(tokenizer.document) | parts))


@pytest.fixture(scope="session")
def kinds(learned):
    """Tokenizers that split this text into bytes, characters and more."""
    words = {"type": "WordLevel", "vocab": {"?": 0, "to": 1, "be": 2}, "unk_token": "?"}
    prefixed = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    return {
        "bytes": ByteTokenizer(),
        "characters": CharacterTokenizer.train(TEXT),
        "extended": with_roles(CharacterTokenizer.train(TEXT), ["mask"]),
        "byte-level": learned,
        "byte-level, a space put before": changed(learned, pre_tokenizer=prefixed),
        "byte-level, normalized": changed(learned, normalizer={"type": "NFC"}),
        "words": JsonTokenizer.of(
            json.dumps(
                {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": words}
            )
        ),
    }


def test_they_sum_to_the_bytes_of_the_text_one_for_each_id(kinds):
    for name, tokenizer in kinds.items():
        counts, ids = tokenizer.byte_counts(TEXT), tokenizer.encode(TEXT)
        assert counts.shape == ids.shape, name
        assert counts.dtype == ids.dtype, name
        assert counts.sum() == len(TEXT.encode()), name
        assert tokenizer.byte_counts("").tolist() == [], name


def test_gpt2_s_are_those_of_the_bytes_that_tiktoken_gives_its_ids(gpt2):
    ids = gpt2.encode(TEXT).tolist()
    engine = tiktoken.Encoding("gpt2", pat_str=".", mergeable_ranks=_ranks(gpt2), special_tokens={})
    assert gpt2.byte_counts(TEXT).tolist() == [len(engine.decode_single_token_bytes(i)) for i in ids]
    assert gpt2.byte_counts(TEXT).sum() == len(TEXT.encode())


def test_llama_s_are_those_of_the_text_although_a_space_is_put_before_it(test_data):
    llama = tokenizer_from_path(test_data / "stories260K" / "hf")
    assert llama.byte_counts("Once upon a time🙂").tolist() == [4, 5, 2, 5, 4, 0, 0, 0]  # four bytes of one character
    assert llama.byte_counts(TEXT).sum() == len(TEXT.encode())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_byte_level_token_that_ends_inside_a_character_counts_the_bytes_it_has(learned, texts, data):
    text = data.draw(texts)
    tokens = {place: token for token, place in json.loads(learned.document)["model"]["vocab"].items()}
    bytes_of = [_bytes_of(tokens[i]) for i in learned.encode(text).tolist()]
    assert b"".join(bytes_of) == text.encode()
    assert learned.byte_counts(text).tolist() == [len(part) for part in bytes_of]


def test_words_take_the_blanks_before_them_and_the_last_one_those_behind_it(kinds):
    assert kinds["words"].byte_counts(" to  bé \n").tolist() == [3, 7]


def _bytes_of(token):
    byte_of = {symbol: byte for byte, symbol in BYTE_SYMBOLS.items()}
    return bytes(byte_of[symbol] for symbol in token)


def _ranks(gpt2):
    return {_bytes_of(token): rank for rank, token in enumerate(gpt2.tokens[:-1])}
