"""What a tokenizer.json describes, as it describes it, or a refusal in one line."""

import json
import random
import re

import numpy as np
import pytest
import tiktoken
from hypothesis import given, settings

from jaxgpt.data import JsonTokenizer, tokenizer_from_json, tokenizer_from_path
from jaxgpt.data.tokenizer.gpt2 import BYTE_SYMBOLS

FLAGS = dict.fromkeys(("single_word", "lstrip", "rstrip"), False)


def document(**changes):
    """A small word-level tokenizer.json, changed."""
    model = {"type": "WordLevel", "vocab": {"?": 0, "to": 1, "be": 2, "<s>": 3}, "unk_token": "?"}
    special = {"id": 3, "content": "<s>", "special": True, "normalized": False}
    base = {"version": "1.0", "added_tokens": [special | FLAGS], "pre_tokenizer": {"type": "Whitespace"}}
    return json.dumps(base | {"model": model} | changes)


@pytest.fixture(scope="session")
def llama(test_data):
    """A model of 260 thousand parameters has this tokenizer, in the manner of Llama 2's."""
    return tokenizer_from_path(test_data / "stories260K" / "hf")


@pytest.fixture(scope="session")
def expected(test_data):
    """(text, its ids after the one that begins a text), as transformers gives them."""
    folder = test_data / "stories260K"
    ids = json.loads((folder / "expected.json").read_text())["input_ids"]
    return (folder / "greedy_reference.txt").read_text().removesuffix("\n"), ids[1:]


def test_a_llama_tokenizer_gives_the_ids_that_transformers_gives_and_the_text_back(llama, expected):
    text, ids = expected
    assert llama.encode(text).tolist() == ids
    assert llama.encode(text).dtype == np.int32
    assert llama.decode(ids) == text


def test_a_llama_tokenizer_knows_its_ids_by_role(llama):
    assert llama.vocab_size == 512
    assert llama.special_ids == {"bos": 1, "eos": 2}


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([403, 407], "Once upon"),
        ([407], "upon"),  # alone, it begins the text, and the space that begins a text is taken away
        ([410], ""),
        ([410, 410], " "),
        ([13], "\n"),
        ([198], "\N{REPLACEMENT CHARACTER}"),  # <0xC3>, the first half of é
        ([198, 172], "é"),
        ([1], "<s>"),
        ([1, 403], "<s> Once"),
        ([], ""),
    ],
)
def test_a_llama_tokenizer_takes_one_space_from_the_beginning_and_makes_bytes_whole(llama, ids, text):
    assert llama.decode(ids) == text


@pytest.mark.parametrize("text", [" a", "a ", "  a", " ", "\n", "é🙂", "\x00", "a  b"])
def test_a_llama_tokenizer_keeps_the_spaces_of_a_text(llama, text):
    assert llama.decode(llama.encode(text)) == text


def test_special_tokens_in_a_text_are_text_unless_asked_for(llama, learned):
    assert 1 not in llama.encode("<s>")
    assert llama.decode(llama.encode("a <s> b")) == "a <s> b"
    assert llama.encode("<s>", parse_special=True).tolist() == [1]
    assert learned.special_ids["eos"] == 498
    assert 498 not in learned.encode("<|endoftext|>")
    assert learned.encode("<|endoftext|>", parse_special=True).tolist() == [498]


@pytest.fixture(scope="session")
def other(learned):
    """tiktoken's encoder from the same bytes, ranks and special tokens."""
    byte_of = {symbol: byte for byte, symbol in BYTE_SYMBOLS.items()}
    vocabulary = json.loads(learned.document)["model"]["vocab"]
    ranks = {bytes(byte_of[symbol] for symbol in token): rank for token, rank in vocabulary.items()}
    pattern = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    special = {"<|endoftext|>": 498, "<pad>": 499}
    return tiktoken.Encoding("other", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)


def test_a_learned_tokenizer_gives_tiktokens_ids_and_the_text_back(learned, other, texts):
    @settings(deadline=None)
    @given(texts)
    def check(text):
        ids = learned.encode(text).tolist()
        assert ids == other.encode_ordinary(text)
        assert learned.decode(ids) == text

    check()


def test_it_survives_json_without_any_file(learned, llama):
    for tokenizer in (learned, llama):
        again = tokenizer_from_json(json.loads(json.dumps(tokenizer.to_json())))
        assert again == tokenizer
        assert again.special_ids == tokenizer.special_ids
        assert again.encode("Once <s>").tolist() == tokenizer.encode("Once <s>").tolist()


def test_white_space_of_the_file_makes_no_difference():
    spread = json.dumps(json.loads(document()), indent=4)
    assert JsonTokenizer.of(spread) == JsonTokenizer.of(document())
    assert not re.search(r"\s", JsonTokenizer.of(spread).document)


def test_gpt2s_ids_mean_the_same_whichever_library_runs_them(gpt2, learned):
    decoder = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    vocabulary = {token: place for place, token in enumerate(gpt2.tokens)}
    pairs = [line for line in gpt2.merges.split("\n")[1:] if line]
    model = {"type": "BPE", "vocab": vocabulary, "merges": pairs}
    text = json.dumps({"version": "1.0", "pre_tokenizer": decoder, "decoder": decoder, "model": model})
    assert JsonTokenizer.of(text).fingerprint() == gpt2.fingerprint() != learned.fingerprint()


@pytest.mark.parametrize(
    "change",
    [
        {"decoder": {"type": "Fuse"}},
        {"model": {"type": "WordLevel", "vocab": {"?": 0, "be": 1, "to": 2, "<s>": 3}, "unk_token": "?"}},
    ],
    ids=["another decoder", "two tokens swapped"],
)
def test_ids_that_mean_something_else_change_the_fingerprint(change):
    assert JsonTokenizer.of(document(**change)).fingerprint() != JsonTokenizer.of(document()).fingerprint()


def test_truncation_padding_and_templates_of_the_file_leave_the_text_whole():
    cut = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    pad = {"strategy": {"Fixed": 9}, "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "?"}
    part = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    template = {
        "type": "TemplateProcessing",
        "single": [part, *[{"Sequence": {"id": "A", "type_id": 0}}] * 2],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [3], "tokens": ["<s>"]}},
    }
    tokenizer = JsonTokenizer.of(document(truncation=cut, padding=pad, post_processor=template))
    assert tokenizer.encode("to be to be").tolist() == [1, 2, 1, 2]


def test_roles_come_from_usual_names_of_special_tokens_and_may_be_given():
    assert JsonTokenizer.of(document()).special_ids == {"bos": 3}
    assert JsonTokenizer.of(document(), {"pad": "?", "bos": "be", "eos": "nowhere"}).special_ids == {
        "bos": 2,
        "pad": 0,
    }
    assert JsonTokenizer.of(document(added_tokens=[])).special_ids == {}
    ordinary = {"id": 3, "content": "<s>", "special": False, "normalized": False} | FLAGS
    assert JsonTokenizer.of(document(added_tokens=[ordinary])).special_ids == {}


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not whole JSON (Expecting value"),
        (document()[:-1], "not whole JSON (Expecting"),
        ("[" * 100_000, "not whole JSON ("),
        ("[]", "not a tokenizer.json that the tokenizers library "),
        ("{}", "not a tokenizer.json that the tokenizers library "),
        (document(model={"type": "Nothing"}), "not a tokenizer.json that the tokenizers library "),
        (document(added_tokens=[{"content": "\ud800"}]), "not a tokenizer.json that the tokenizers library "),
        (document(model={"type": "WordLevel", "vocab": {"?": 0, "a": 2}, "unk_token": "?"}), "id 1 is missing"),
        (document(model={"type": "WordLevel", "vocab": {"?": 0, "a": 0}, "unk_token": "?"}), "id 1 is missing or th"),
        (document(model={"type": "WordLevel", "vocab": {}, "unk_token": "?"}, added_tokens=[]), "its 0 ids"),
        (
            document(model={"type": "BPE", "vocab": {"a": 0}, "merges": [], "unk_token": "a", "dropout": 0.1}),
            "dropout 0.1, which draws other ids for the same text each time",
        ),
        (
            document(model={"type": "BPE", "vocab": {"a": 0}, "merges": []}, added_tokens=[]),
            "neither an unknown token nor tokens for bytes",
        ),
        (
            document(
                model={"type": "BPE", "vocab": {"a": 0}, "merges": []}, added_tokens=[], pre_tokenizer=BYTE_LEVEL
            ),
            "255 of the 256 bytes have no token (the first is '!')",
        ),
        (
            document(
                model={"type": "BPE", "vocab": {"<0x00>": 0}, "merges": [], "byte_fallback": True}, added_tokens=[]
            ),
            "255 of the 256 bytes have no token (the first is '<0x01>')",
        ),
    ],
)
def test_a_document_that_cannot_be_trusted_is_refused(refusal, text, words):
    assert words in refusal(JsonTokenizer.of, text)


def test_bytes_below_a_sequence_count_as_bytes():
    model = {"type": "BPE", "vocab": {symbol: id for id, symbol in enumerate(BYTE_SYMBOLS.values())}, "merges": []}
    pieces = {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, BYTE_LEVEL]}
    tokenizer = JsonTokenizer.of(document(model=model, added_tokens=[], pre_tokenizer=pieces, decoder=BYTE_LEVEL))
    assert tokenizer.decode(tokenizer.encode("é 12")) == "é 12"


def test_a_file_cut_anywhere_is_refused(refusal, learned):
    for length in random.Random(0).sample(range(len(learned.document)), 50):
        assert "not whole JSON" in refusal(JsonTokenizer.of, learned.document[:length])


def test_a_text_without_ids_is_refused(refusal):
    tokenizer = JsonTokenizer.of(
        document(model={"type": "WordLevel", "vocab": {"to": 0}, "unk_token": "?"}, added_tokens=[])
    )
    assert tokenizer.encode("to").tolist() == [0]
    assert "the tokenizer cannot encode this text: " in refusal(tokenizer.encode, "be")
    assert "half a surrogate pair" in refusal(tokenizer.encode, "\ud800")
    assert "token id 1 at position 0 is outside 0..0" in refusal(tokenizer.decode, [1])


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"roles": {"bos": "gone"}}, "the special token 'gone' has the role 'bos'; expected one of the tokenizer's"),
        ({"roles": {"king": "to"}}, "has the role 'king'; expected"),
        ({"roles": {"bos": 3}}, "the special token 3 has the role 'bos'"),
        ({"roles": []}, "expected the fields 'kind' and 'document' (text) and 'roles' (an object)"),
        ({"document": "{}"}, "not a tokenizer.json"),
    ],
)
def test_a_malformed_record_is_refused(refusal, record, words):
    sound = {"kind": "tokenizer.json", "document": document(), "roles": {"bos": "<s>"}}
    assert tokenizer_from_json(sound).special_ids == {"bos": 3}
    assert words in refusal(tokenizer_from_json, sound | record)
