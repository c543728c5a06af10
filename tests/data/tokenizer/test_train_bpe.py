"""A vocabulary learned from a text has the size that was asked for, and no byte is missing."""

import json

import pytest
import tokenizers

from jaxgpt.data import train_bpe


def test_the_vocabulary_is_bytes_then_merges_then_special_tokens(learned):
    tokens = [learned.decode([id]) for id in range(learned.vocab_size)]
    assert len(tokens) == 500
    assert tokens[498:] == ["<|endoftext|>", "<pad>"]
    assert learned.special_ids == {"bos": 498, "eos": 498, "pad": 499}
    assert all(len(token.encode()) > 1 for token in tokens[256:498])
    assert {chr(code) for code in range(128)} <= set(tokens[:256])


def test_the_most_frequent_pair_is_merged_first():
    merges = json.loads(train_bpe("ab ab ab abc abc cd cd " * 2, 258).document)["model"]["merges"]
    assert merges == [["a", "b"], ["Ġ", "ab"]]


def test_the_same_text_gives_the_same_tokenizer(learned, manual):
    assert train_bpe(manual, 500, ["<|endoftext|>", "<pad>"]) == learned


def test_learning_line_by_line_changes_nothing(learned, manual):
    """The text is given to the library in parts; here as one."""
    engine = tokenizers.Tokenizer(tokenizers.models.BPE())
    engine.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=498, min_frequency=2, show_progress=False, initial_alphabet=alphabet
    )
    engine.train_from_iterator([manual], trainer)
    assert json.loads(engine.to_str())["model"] == json.loads(learned.document)["model"]


def test_another_program_reads_what_was_learned(learned, manual, tmp_path):
    (tmp_path / "tokenizer.json").write_text(learned.document)
    engine = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert engine.encode(manual).ids == learned.encode(manual).tolist()


@pytest.mark.parametrize(
    ("text", "size", "special", "words"),
    [
        ("abc", 255, [], "a vocabulary of 255 is too small: 256 bytes and 0 special tokens need at least 256"),
        ("abc", 257, ["<s>", "</s>"], "256 bytes and 2 special tokens need at least 258"),
        ("ab ab", 300, [], "pairs that occur more than once give only 257; ask for at most 257, or give more text"),
        ("", 300, ["<s>"], "give only 257; ask for at most 257"),
        ("ab ab", 300, ["<s>", "<s>"], "special token '<s>' is empty or there twice"),
        ("ab ab", 300, [""], "special token '' is empty or there twice"),
        ("ab ab", 258, ["ab"], "special token 'ab' is also an ordinary token of this text"),
        ("ab ab", 258, ["a\ud800"], "half a surrogate pair"),
        ("ab \ud800", 258, [], "half a surrogate pair"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused(refusal, text, size, special, words):
    assert words in refusal(train_bpe, text, size, special)


def test_a_vocabulary_of_bytes_alone_is_possible():
    tokenizer = train_bpe("whatever", 256)
    assert tokenizer.decode(tokenizer.encode("é")) == "é"
    assert len(tokenizer.encode("é")) == 2
