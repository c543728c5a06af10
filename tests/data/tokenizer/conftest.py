"""Tokenizers that several tests use, and texts that are hard to cut."""

import pytest
from hypothesis import strategies as st

from jaxgpt.config import RequestError
from jaxgpt.data import load_corpus, tokenizer_from_path, train_bpe

_PARTS = ["the", "The", " ", "  ", "\n", "\n\n", "\t", "\r\n", "'s", "'LL", "123", "1", "!?", "<|endoftext|>", "<s>"]
_RARE = ["é", "漢字", "🙂", "\u00a0", "\u3000", "\x00", "\ufffd", "e\u0301", "\u200d", "Ġ", "▁"]


@pytest.fixture(scope="session")
def texts():
    """A strategy: any text, and mixtures of what pre-tokenizers treat specially."""
    return st.text() | st.lists(st.sampled_from(_PARTS + _RARE)).map("".join)


@pytest.fixture
def refusal():
    """Return a function that makes a call which must be refused, and returns the one line it is refused with."""

    def message(call, *arguments, **options):
        with pytest.raises(RequestError) as caught:
            call(*arguments, **options)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return message


@pytest.fixture(scope="session")
def gpt2_folder(test_data):
    """GPT-2's vocab.bpe and encoder.json."""
    return test_data / "gpt2-bpe"


@pytest.fixture(scope="session")
def gpt2(gpt2_folder):
    return tokenizer_from_path(gpt2_folder / "vocab.bpe")


@pytest.fixture(scope="session")
def manual():
    """English text that every Python brings."""
    return load_corpus(None).text[:60_000]


@pytest.fixture(scope="session")
def learned(manual):
    """A byte-level BPE of 500 ids."""
    return train_bpe(manual, 500, ["<|endoftext|>", "<pad>"])
