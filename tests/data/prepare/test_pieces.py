"""A text is cut only where the ids of the pieces, joined, are the ids of the whole."""

import json
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jaxgpt.data import ByteTokenizer, CharacterTokenizer, JsonTokenizer, tokenizer_from_path, train_bpe
from jaxgpt.data.prepare.pieces import (
    before_last_character,
    before_white_space,
    cut_pieces,
    cutting_for,
    nowhere,
)
from jaxgpt.data.tokenizer.special import ExtendedTokenizer

# What the pattern looks at: white space of all kinds, contractions, and what is nearly one of them.
PARTS = [
    " ", "  ", "\t", "\n", "\n\n\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x1f", "\x85", "\xa0", "\u1680", "\u180e",
    "\u2003", "\u200b", "\u2028", "\u202f", "\u205f", "\u3000", "\ufeff", "a", "The", "ß", "漢字", "e\u0301",
    "\u0301", "1", "½", "２", "'", "'s", "'ll", "'S", "’s", "don't", ".", "...", "。", "🙂", "👨\u200d👩\u200d👧",
    "🇫🇷",     "<|endoftext|>", "\x00", "x" * 20, "_", "$", " '", "' s", "É", "\U000e0100",
]  # fmt: skip
nasty_text = st.lists(st.sampled_from(PARTS) | st.text(max_size=3), max_size=30).map("".join)


@pytest.fixture(scope="module")
def gpt2(test_data):
    return tokenizer_from_path(test_data / "gpt2-bpe" / "vocab.bpe")


@pytest.fixture(scope="module")
def learned():
    return train_bpe("the  theory\n\n of 'the' don't we'll  \t\n漢字 漢字 éé\n" * 20, 284, ["<|endoftext|>"])


@pytest.fixture(scope="module", params=["bytes", "characters", "extended", "learned", "gpt2"])
def tokenizer(request):
    if request.param in ("learned", "gpt2"):
        return request.getfixturevalue(request.param)
    characters = CharacterTokenizer(tuple(sorted(set("".join(PARTS)))))
    return {
        "bytes": ByteTokenizer(),
        "characters": characters,
        "extended": ExtendedTokenizer(ByteTokenizer(), ("eos",)),
    }[request.param]


def blocks_of(text, size):
    content = text.encode()
    return [content[i : i + size] for i in range(0, len(content), size)]


@settings(deadline=None)
@example("a \u3000 b", 4)
@example("we 'll  go\n\n on", 1)
@given(nasty_text, st.integers(1, 40))
def test_the_ids_of_the_pieces_are_those_of_the_whole(tokenizer, text, size):
    if isinstance(tokenizer, CharacterTokenizer):
        text = "".join(character for character in text if character in tokenizer.characters)
    pieces = list(cut_pieces(blocks_of(text, size), cutting_for(tokenizer).last_cut))
    assert b"".join(piece for piece, _ in pieces) == text.encode()
    assert [is_last for _, is_last in pieces] == [False] * (len(pieces) - 1) + [True] * bool(pieces)
    joined = [id for piece, _ in pieces for id in tokenizer.encode(piece.decode()).tolist()]
    assert joined == tokenizer.encode(text).tolist()


def ids_differ(tokenizer, left, right):
    return (
        tokenizer.encode(left).tolist() + tokenizer.encode(right).tolist() != tokenizer.encode(left + right).tolist()
    )


def odd(character):
    """White space, marks, controls and formats: where two ideas of white space could differ."""
    return unicodedata.category(character) in ("Cc", "Cf", "Zs", "Zl", "Zp", "Mn", "Me", "Lm", "Sk")


@pytest.mark.parametrize("name", ["gpt2", "learned"])
def test_before_white_space_is_safe_whatever_character_stands_there(request, name):
    _check_characters(request.getfixturevalue(name), filter(odd, map(chr, range(0x3100))))


@pytest.mark.ci
@pytest.mark.parametrize("name", ["gpt2", "learned"])
def test_before_white_space_is_safe_for_all_of_unicode(request, name):
    assigned = (character for character in map(chr, range(0x110000)) if unicodedata.category(character)[0] != "C")
    _check_characters(request.getfixturevalue(name), assigned, after=("\nb",))


def _check_characters(tokenizer, characters, after=(" b", "\nb", "\r\n")):
    cut = 0
    for character in characters:
        left = f"a {character}"
        for right in after:
            if before_white_space((left + right[0]).encode()) == len(left.encode()):
                cut += 1
                assert not ids_differ(tokenizer, left, right), hex(ord(character))
    assert cut > 1000


def test_elsewhere_a_cut_would_change_ids(gpt2):
    """So the rule is not stricter for nothing: inside white space, before a letter, inside a contraction."""
    for left, right in [("a\n", "\n\nb"), ("a ", "b"), ("we'", "ll")]:
        assert ids_differ(gpt2, left, right)
        assert before_white_space((left + right).encode()) != len(left.encode())


def test_a_wide_white_space_is_no_visible_character():
    """A learned merge may join it with the blank behind it."""
    wide = [character for character in map(chr, range(0x80, 0x110000)) if character.isspace()]
    tokenizer = train_bpe("".join(f"z{character}  y" for character in wide) * 20, 297)
    for character in wide:
        assert ids_differ(tokenizer, f"z{character}", "  y"), hex(ord(character))
        assert before_white_space(f"z{character}  y".encode()) == 0, hex(ord(character))


def test_a_run_without_a_place_is_one_piece():
    run = "x" * 10_000
    pieces = [piece.decode() for piece, _ in cut_pieces(blocks_of(f"a b {run} c", 64), before_white_space)]
    assert pieces == ["a b", f" {run}", " c"]


def test_blocks_are_cut_at_their_last_place():
    text = "to be or not to be, that is the question " * 10
    pieces = [len(piece) for piece, _ in cut_pieces(blocks_of(text, 64), before_white_space)]
    assert len(pieces) == 8
    assert max(pieces) <= 64 + len(" question")


@given(st.binary(max_size=40), st.integers(1, 7))
def test_bytes_that_are_not_utf8_are_cut_without_loss(content, size):
    blocks = [content[i : i + size] for i in range(0, len(content), size)]
    for last_cut in (before_white_space, before_last_character, nowhere):
        assert b"".join(piece for piece, _ in cut_pieces(blocks, last_cut)) == content


def changed(document, **parts):
    return JsonTokenizer.of(json.dumps(json.loads(document) | parts))


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
ADDED = {"id": 284, "content": "the theory", "single_word": False, "lstrip": False, "rstrip": False}


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"normalizer": {"type": "NFC"}}, "its normalizer NFC may look at more than one character"),
        ({"pre_tokenizer": BYTE_LEVEL | {"add_prefix_space": True}}, "it puts a space before a text"),
        ({"pre_tokenizer": BYTE_LEVEL | {"use_regex": False}}, "its pre-tokenizer ByteLevel is not GPT-2's pattern"),
        (
            {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [BYTE_LEVEL]}},
            "its pre-tokenizer Sequence is not GPT-2's pattern",
        ),
        ({"added_tokens": [ADDED | {"normalized": False, "special": False}]}, "added tokens that are looked for"),
    ],
    ids=str,
)
def test_a_tokenizer_json_that_may_look_further_is_not_cut(learned, parts, words):
    cutting = cutting_for(changed(learned.document, **parts))
    assert words in cutting.obstacle
    assert cutting.last_cut is nowhere


def test_a_model_of_another_type_is_not_cut():
    document = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": BYTE_LEVEL,
        "model": {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"},
    }
    assert cutting_for(JsonTokenizer.of(json.dumps(document))).obstacle == "its model is WordLevel"


def test_such_a_tokenizer_would_lose_by_a_cut(learned):
    """The place is safe for GPT-2's pattern, and the ids change all the same."""
    assert ids_differ(
        changed(learned.document, added_tokens=[ADDED | {"normalized": False, "special": False}]), "the", " theory"
    )
    assert ids_differ(changed(learned.document, pre_tokenizer=BYTE_LEVEL | {"add_prefix_space": True}), "a", "\nb")
