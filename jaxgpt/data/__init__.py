"""Text in, batches out: tokenizers, corpora, and batches as a pure function of (seed, step).

The light parts are re-exported here; `jaxgpt.data.batches` needs grain and is imported by its own name.
"""

from .corpus import Corpus, check_same_corpus, load_corpus, split_by_position
from .token_ids import check_token_ids
from .tokenizer import CharacterTokenizer, Tokenizer, make_tokenizer, tokenizer_from_json

__all__ = [
    "CharacterTokenizer",
    "Corpus",
    "Tokenizer",
    "check_same_corpus",
    "check_token_ids",
    "load_corpus",
    "make_tokenizer",
    "split_by_position",
    "tokenizer_from_json",
]
