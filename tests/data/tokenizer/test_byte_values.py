"""Every text has bytes, and any bytes have a text."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgpt.data import ByteTokenizer, CharacterTokenizer, tokenizer_from_json


@given(st.text())
def test_the_ids_of_a_text_are_its_utf8_and_decode_to_it(text):
    ids = ByteTokenizer().encode(text)
    assert ids.dtype == np.int32
    assert bytes(ids.tolist()) == text.encode()
    assert ByteTokenizer().decode(ids) == text


@given(st.binary())
def test_any_bytes_decode_to_a_text(ids):
    ByteTokenizer().decode(list(ids)).encode()


# The Unicode Standard, chapter 3, tables 3-8 to 3-11: how many replacement characters stand for broken parts.
@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ("C0 AF E0 80 BF F0 81 82 41", "????????A"),
        ("ED A0 80 ED BF BF ED AF 41", "????????A"),
        ("F4 91 92 93 FF 41 80 BF 42", "?????A??B"),
        ("E1 80 E2 F0 91 92 F1 BF 41", "????A"),
    ],
)
def test_bytes_that_are_not_utf8_become_replacement_characters_as_unicode_recommends(ids, text):
    assert ByteTokenizer().decode(list(bytes.fromhex(ids))) == text.replace("?", "\N{REPLACEMENT CHARACTER}")


def test_half_a_surrogate_pair_is_refused_with_its_place(refusal):
    message = refusal(ByteTokenizer().encode, "ab\udcff")
    assert message.startswith(r"character '\udcff' (U+DCFF) at position 2 is half a surrogate pair")


def test_an_id_that_is_no_byte_is_refused(refusal):
    assert "token id 256 at position 1 is outside 0..255" in refusal(ByteTokenizer().decode, [0, 256])


def test_it_survives_json_and_is_not_the_table_of_the_first_256_characters():
    again = tokenizer_from_json(json.loads(json.dumps(ByteTokenizer().to_json())))
    assert again == ByteTokenizer()
    assert again.fingerprint() == ByteTokenizer().fingerprint()
    assert again.fingerprint() != CharacterTokenizer(tuple(map(chr, range(256)))).fingerprint()
    assert again.special_ids == {}


def test_a_record_with_more_in_it_is_refused(refusal):
    message = refusal(tokenizer_from_json, {"kind": "bytes", "characters": ["a"]})
    assert "tokenizer of kind 'bytes': expected the fields 'kind', got 'characters', 'kind'" in message
