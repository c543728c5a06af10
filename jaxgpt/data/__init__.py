"""Text in, batches out: tokenizers, corpora, and batches as a pure function of (seed, step).

The light parts are re-exported here; `jaxgpt.data.batches` needs grain and is imported by its own name.
"""

from .corpus import Corpus, check_same_corpus, load_corpus, split_by_position
from .token_file import TokenFile, is_token_file, write_token_file
from .token_ids import check_token_ids
from .tokenizer import (
    ByteTokenizer,
    CharacterTokenizer,
    Gpt2Tokenizer,
    JsonTokenizer,
    Tokenizer,
    check_same_tokenizer,
    choose_tokenizer,
    make_tokenizer,
    tokenizer_from_json,
    tokenizer_from_path,
    train_bpe,
)

__all__ = [
    "ByteTokenizer",
    "CharacterTokenizer",
    "Corpus",
    "Gpt2Tokenizer",
    "JsonTokenizer",
    "TokenFile",
    "Tokenizer",
    "check_same_corpus",
    "check_same_tokenizer",
    "check_token_ids",
    "choose_tokenizer",
    "is_token_file",
    "load_corpus",
    "make_tokenizer",
    "split_by_position",
    "tokenizer_from_json",
    "tokenizer_from_path",
    "train_bpe",
    "write_token_file",
]
