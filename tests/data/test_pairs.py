"""Pairs: lines in, padded rows out; the loss counts the target and its end, never by comparing ids."""

import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgpt.config import RequestError
from jaxgpt.data.pairs import EncodedPair, Pair, Pairs, date_pairs, encode_pairs, parse_pairs
from jaxgpt.data.tokenizer import CharacterTokenizer

BOS, EOS = 98, 99
cell = st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]), min_size=1, max_size=8)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(cell, cell)), st.booleans())
def test_every_line_is_a_pair_with_or_without_a_last_line_break(pairs, ends):
    text = "\n".join("\t".join(pair) for pair in pairs) + ("\n" if ends and pairs else "")
    if text:
        assert parse_pairs(text, "f") == [Pair(*pair) for pair in pairs]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a\tb\nab\n", "f, line 2: expected source TAB target, got 0 TABs: 'ab'"),
        ("a\tb\tc\n", "f, line 1: expected source TAB target, got 2 TABs"),
        ("a\t\n", "got nothing on one side of its TAB"),
        ("a\tb\r\n", "f, line 1: it ends in a carriage return"),
        ("a\tb\n\nc\td", "f, line 2: expected source TAB target, got 0 TABs: ''"),
    ],
)
def test_a_line_that_is_no_pair_is_named(text, words):
    with pytest.raises(RequestError) as caught:
        parse_pairs(text, "f")
    assert words in str(caught.value)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 99), min_size=1, max_size=5), st.lists(st.integers(0, 99))), min_size=1
    )
)
def test_the_decoder_reads_start_and_target_and_predicts_target_and_end(pairs):
    """Also where the text itself has the ids of padding, start and end."""
    length = max(len(target) for _, target in pairs) + 2
    encoded = [EncodedPair(*(np.array(ids, np.int32) for ids in pair)) for pair in pairs]
    rows = Pairs(encoded, bos_id=BOS, eos_id=EOS, source_length=6, target_length=length)
    batch = rows.batch(rows.tiling, seed=0, draws_B=rows.tiling)
    for b, (source, target) in enumerate(pairs):
        counted, real = batch["weights_BT"][b] == 1, batch["source_mask_BS"][b]
        assert batch["target_ids_BT"][b][counted].tolist() == [*target, EOS]
        assert batch["token_ids_BT"][b][counted].tolist() == [BOS, *target]
        assert batch["source_ids_BS"][b][real].tolist() == source
        assert counted[: len(target) + 1].all()
        assert real[: len(source)].all()


def test_what_does_not_fit_the_context_is_refused_with_its_line():
    tokenizer = CharacterTokenizer.train("abc")

    def encode(*pairs):
        return encode_pairs([Pair(*pair) for pair in pairs], tokenizer, context_length=4, name="f")

    assert [ids.tolist() for ids in encode(("abc", "ab"))[0]] == [[0, 1, 2], [0, 1]]
    with pytest.raises(RequestError, match=r"f, line 2: the source has 5 tokens, above .* set it to at least 5"):
        encode(("a", "b"), ("abcab", "b"))
    with pytest.raises(RequestError, match=r"the target has 3 tokens between its start .* set it to at least 5"):
        encode(("a", "abc"))
    with pytest.raises(RequestError, match=r"f, line 1, target: character 'd' \(U\+0064\) at position 1"):
        encode(("a", "bd"))


def test_the_built_in_pairs_are_every_date_of_a_century_once():
    pairs = parse_pairs(date_pairs().text, "dates")
    dates = {datetime.date.fromisoformat(pair.target) for pair in pairs}
    assert len(pairs) == len(dates) == 36_525
    assert (min(dates).year, max(dates).year) == (1950, 2049)
    formats = ("%d %B %Y", "%B %d, %Y", "%b %d %Y")
    for i, pair in enumerate(pairs[::401]):
        read = datetime.datetime.strptime(pair.source, formats[i * 401 % 3])
        assert read.date().isoformat() == pair.target
    last_tenth = {pair.target[:4] for pair in pairs[-3652:]}
    assert len(last_tenth) == 100
