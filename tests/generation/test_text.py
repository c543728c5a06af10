"""Pieces of text that are shown as ids come: together they are the text of all of them."""

import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jaxgpt.data.tokenizer import ByteTokenizer, CharacterTokenizer, JsonTokenizer
from jaxgpt.data.tokenizer.special import with_roles
from jaxgpt.generation.programs import Made
from jaxgpt.generation.requests import GenerationRequest
from jaxgpt.generation.rows import Rows
from jaxgpt.generation.text import TextPieces, broken_id, certain_text, place_of_stop

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
CHARACTERS = CharacterTokenizer.train("aé€😀 \n" + REPLACEMENT)


def with_byte_fallback():
    """A tokenizer in the manner of Llama's: a run of byte tokens that is not UTF-8 as a whole is none of it text."""
    names = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "▁a"]
    vocabulary = {name: i for i, name in enumerate(names)}
    model = {"type": "BPE", "vocab": vocabulary, "merges": [["▁", "a"]], "unk_token": "<unk>", "byte_fallback": True}
    space = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    decoders = [space, {"type": "ByteFallback"}, {"type": "Fuse"}, strip]
    document = {
        "version": "1.0",
        "added_tokens": [],
        "model": model,
        "decoder": {"type": "Sequence", "decoders": decoders},
    }
    return JsonTokenizer.of(json.dumps(document))


TOKENIZERS = {
    "bytes": ByteTokenizer(),
    "characters": CHARACTERS,
    "with special tokens": with_roles(ByteTokenizer(), ["bos", "eos"]),
    "byte fallback": with_byte_fallback(),
}


def in_pieces(tokenizer, ids, sizes):
    """Return the pieces that are shown as ids come by so many at a time, and the rest."""
    pieces, shown, count = TextPieces(tokenizer.decode, broken_id=broken_id(tokenizer)), [], 0
    for size in sizes:
        count += size
        shown.append(pieces.more(ids[:count]))
    return [*shown, pieces.rest(tokenizer.decode(ids))]


@given(st.text(max_size=30), st.lists(st.integers(0, 5), max_size=30))
def test_a_text_in_pieces_is_the_text_and_no_character_is_shown_in_halves(text, sizes):
    pieces = in_pieces(ByteTokenizer(), ByteTokenizer().encode(text).tolist(), sizes)
    assert "".join(pieces) == text
    assert REPLACEMENT in text or REPLACEMENT not in "".join(pieces)


@pytest.mark.parametrize("name", TOKENIZERS)
@given(data=st.data(), sizes=st.lists(st.integers(0, 3), max_size=40))
def test_any_ids_in_pieces_are_the_text_of_all_of_them(name, data, sizes):
    tokenizer = TOKENIZERS[name]
    bytes_that_matter = st.sampled_from([0x0A, 0x61, 0x80, 0xAC, 0x82, 0xE2, 0xC3, 0xF0, 0xFF])
    anything = st.integers(0, tokenizer.vocab_size - 1)
    ids = data.draw(st.lists(anything if name == "characters" else anything | bytes_that_matter, max_size=40))
    assert "".join(in_pieces(tokenizer, ids, sizes)) == tokenizer.decode(ids)


def test_a_run_of_bytes_that_may_still_be_taken_back_is_held_back():
    tokenizer = TOKENIZERS["byte fallback"]
    run, a = [1 + byte for byte in "é".encode()], tokenizer.decode([258])
    assert tokenizer.decode([258, *run, 1 + 0xFF]) == a + 3 * REPLACEMENT
    assert certain_text(tokenizer.decode, [258, *run], broken_id(tokenizer)) == a
    assert certain_text(tokenizer.decode, [258, *run, 259], broken_id(tokenizer)) == a + "éb"


@given(
    st.text("ab.", max_size=20),
    st.lists(st.text("ab.", min_size=1, max_size=4), min_size=1, max_size=3),
    st.lists(st.integers(1, 3), min_size=20, max_size=20),
)
@example("ab.ab", [".a", "ab.a"], [1] * 20)
def test_nothing_of_a_stop_string_is_shown_and_all_before_it_is(text, stops, lengths):
    """Ids stand for parts of the text; they end with the first that completes a stop string, if one does."""
    parts, place = [], 0
    while place < len(text) and not any(stop in text[:place] for stop in stops):
        parts.append(text[place : place + lengths[len(parts)]])
        place += len(parts[-1])
    whole = "".join(parts)

    def decode(ids):
        return "".join(parts[i] for i in ids)

    ids = list(range(len(parts)))
    pieces, shown = TextPieces(decode, stop_strings=stops), ""
    for count in range(len(parts)):
        shown += pieces.more(ids[:count])
    end = whole[: place_of_stop(whole, "", stops)]
    expected = min((whole.split(stop)[0] for stop in stops), key=len)
    assert end == expected
    assert shown + pieces.rest(end) == expected


def test_a_stop_string_in_the_prompt_or_over_its_end_is_none():
    assert place_of_stop("a.b.c", "a.b", ["."]) == 3
    assert place_of_stop("a..b", "a.", ["..", "b"]) == 3
    assert place_of_stop("a..", "a.", [".."]) is None


def test_a_character_that_new_bytes_finish_is_new():
    assert place_of_stop("aé", "a" + REPLACEMENT, ["é"]) == 1
    assert place_of_stop(f"a{REPLACEMENT}b", "a" + REPLACEMENT, [REPLACEMENT]) is None


LLAMA_LIKE = st.sampled_from([257, 258, 259, 260])  # a space, a, b, and a space with a


@given(
    st.lists(LLAMA_LIKE, min_size=1, max_size=3),
    st.lists(LLAMA_LIKE, min_size=1, max_size=8),
    st.lists(st.text("ab ", min_size=1, max_size=3), min_size=1, max_size=2),
    st.integers(1, 8),
)
@example([259], [260], [" a"], 8)
def test_a_row_ends_with_the_token_that_completes_a_stop_string_in_what_the_prompt_s_text_goes_on_with(
    prompt, new, stops, at_a_time
):
    """The tokenizer leaves out a space at the very beginning, so that new ids alone have another text."""
    decode = TOKENIZERS["byte fallback"].decode
    rows = Rows([prompt], GenerationRequest(max_new_tokens=len(new), stop_strings=stops, decode=decode))
    for start in range(0, len(new), at_a_time):
        rows.take(Made(np.array([new[start : start + at_a_time]]), None))
    texts = [decode(prompt + new[:count]) for count in range(len(new) + 1)]
    ends = [count for count, text in enumerate(texts) if any(stop in text[len(texts[0]) :] for stop in stops)]
    assert rows.ids == [prompt + new[: min(ends, default=len(new))]]
    assert rows.reasons == ["stop_string" if ends else "length"]
    if ends:
        added = texts[ends[0]][len(texts[0]) :]
        wanted = min((added.split(stop)[0] for stop in stops), key=len)
        assert texts[ends[0]][: place_of_stop(decode(rows.ids[0]), texts[0], stops)] == texts[0] + wanted


def test_an_id_that_breaks_characters_is_found_where_there_is_one():
    assert broken_id(CharacterTokenizer.train("aé")) is None
    assert TOKENIZERS["byte fallback"].decode([broken_id(TOKENIZERS["byte fallback"])]) == REPLACEMENT
