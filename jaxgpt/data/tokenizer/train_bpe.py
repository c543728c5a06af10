"""Learning a byte-level BPE from a text (Sennrich et al. 2016, over bytes as in GPT-2)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jaxgpt.config import RequestError

from .checks import utf8_bytes
from .tokenizer_json import JsonTokenizer

BYTES = 256
# One line break between two visible characters is a piece by itself, so cutting after it changes no piece, and the
# library counts the parts in parallel.
_SAFE_CUT = re.compile(r"(?<=\S\n)(?=\S)")


def train_bpe(text: str, vocab_size: int, special: Sequence[str] = ()) -> JsonTokenizer:
    """Return a byte-level BPE with exactly `vocab_size` ids: 256 bytes, merges, then the special tokens.

    The text is cut as GPT-2 cuts it, then the most frequent pair is merged again and again. Pairs that occur only
    once are not merged. The same text gives the same tokenizer.

    Args:
        text: what to learn from.
        vocab_size: number of ids V, at least 256 + the number of special tokens.
        special: names of special tokens, in the order of their ids; `usual_roles` says which have a role.

    Raises:
        RequestError: too small a vocabulary, one that the text cannot fill, or a special token that is empty, there
            twice or an ordinary token.

    Example:
        >>> tokenizer = train_bpe("low lower lowest low low", 260, ["<|endoftext|>"])
        >>> tokenizer.vocab_size, tokenizer.special_ids
        (260, {'bos': 259, 'eos': 259})
        >>> [tokenizer.decode([id]) for id in tokenizer.encode("lowest")]
        ['low', 'e', 's', 't']
    """
    _check_request(vocab_size, special)
    utf8_bytes(text)
    import tokenizers

    engine = tokenizers.Tokenizer(tokenizers.models.BPE())
    engine.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size - len(special),
        min_frequency=2,
        show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    engine.train_from_iterator(_SAFE_CUT.split(text), trainer)
    engine.add_special_tokens(list(special))
    _check_result(engine.get_vocab_size(), vocab_size, special, engine.get_vocab(with_added_tokens=False))
    return JsonTokenizer.of(engine.to_str())


def _check_request(vocab_size: int, special: Sequence[str]) -> None:
    for name in special:
        if not name or special.count(name) > 1:
            raise RequestError(f"special token {name!r} is empty or there twice; give each a name of its own")
        utf8_bytes(name)
    if vocab_size < BYTES + len(special):
        raise RequestError(
            f"a vocabulary of {vocab_size} is too small: {BYTES} bytes and {len(special)} special tokens need "
            f"at least {BYTES + len(special)}"
        )


def _check_result(found: int, vocab_size: int, special: Sequence[str], ordinary: dict[str, int]) -> None:
    for name in special:
        if name in ordinary:
            raise RequestError(f"special token {name!r} is also an ordinary token of this text; give another name")
    if found < vocab_size:
        raise RequestError(
            f"the text is too short or too uniform for {vocab_size} ids: pairs that occur more than once give only "
            f"{found}; ask for at most {found}, or give more text"
        )
