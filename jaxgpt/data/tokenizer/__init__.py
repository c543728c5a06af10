"""Text to token ids and back. A tokenizer is a value: what its ids mean can be written down and compared.

A file per kind, `kinds` with the table of them, `files` for what other programs wrote, `train_bpe` to learn one.
"""

from .byte_values import ByteTokenizer
from .characters import CharacterTokenizer
from .files import tokenizer_from_path
from .gpt2 import Gpt2Tokenizer
from .kinds import check_same_tokenizer, choose_tokenizer, make_tokenizer, tokenizer_from_json
from .protocol import Tokenizer
from .tokenizer_json import JsonTokenizer
from .train_bpe import train_bpe

__all__ = [
    "ByteTokenizer",
    "CharacterTokenizer",
    "Gpt2Tokenizer",
    "JsonTokenizer",
    "Tokenizer",
    "check_same_tokenizer",
    "choose_tokenizer",
    "make_tokenizer",
    "tokenizer_from_json",
    "tokenizer_from_path",
    "train_bpe",
]
