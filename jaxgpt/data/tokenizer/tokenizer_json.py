"""Any tokenizer that a tokenizer.json describes, run by the tokenizers library."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from jaxgpt.config import RequestError

from .checks import check_record, id_row, utf8_bytes, utf8_lengths
from .gpt2 import BYTE_SYMBOLS, END_OF_TEXT, symbol_counts
from .vocabulary import vocabulary_fingerprint

if TYPE_CHECKING:
    import tokenizers

# A tokenizer.json marks special tokens but does not say what they are for; these names are the usual ones.
ROLE_NAMES = {
    "bos": ("<s>", "<bos>", "<|begin_of_text|>", END_OF_TEXT),
    "eos": ("</s>", "<eos>", "<|end_of_text|>", END_OF_TEXT),
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "mask": ("<mask>", "[MASK]", "<|mask|>"),
}


class _Loaded(NamedTuple):
    """What the library made of a tokenizer.json.

    Attributes:
        engine: the library's tokenizer; it takes the names of special tokens in a text for text.
        tokens: `tokens[i]` is id i.
        special: the tokens marked special.
        decoder: the document's decoder.
    """

    engine: tokenizers.Tokenizer
    tokens: tuple[str, ...]
    special: frozenset[str]
    decoder: Mapping[str, Any] | None


@functools.lru_cache(maxsize=4)  # a run opens its manifest several times, and a large vocabulary takes a second
def _load(document: str) -> _Loaded:
    engine = _library_tokenizer(document)
    engine.encode_special_tokens = True  # "encode" them as the text they are
    parts = json.loads(document)
    _check_repeatable(parts["model"])
    tokens = _tokens_in_order(engine.get_vocab(with_added_tokens=True))
    _check_keeps_all_text(parts, frozenset(tokens))
    special = frozenset(token.content for token in engine.get_added_tokens_decoder().values() if token.special)
    return _Loaded(engine, tokens, special, parts.get("decoder"))


@functools.lru_cache(maxsize=1)
def _parsing_engine(document: str) -> tokenizers.Tokenizer:
    """The library's tokenizer that takes the names of special tokens in a text for special tokens."""
    return _library_tokenizer(document)


def _library_tokenizer(document: str) -> tokenizers.Tokenizer:
    """Build the library's tokenizer, which only encodes: nothing is cut, padded or put around the text."""
    import tokenizers  # here: a run with another tokenizer need not load it

    try:
        engine = tokenizers.Tokenizer.from_str(document)
    except Exception as error:  # the library raises bare `Exception`
        raise RequestError(
            f"not a tokenizer.json that the tokenizers library {tokenizers.__version__} can read: {error}; "
            "save it again with the library that made it, or get an undamaged copy"
        ) from None
    engine.no_truncation()
    engine.no_padding()
    engine.post_processor = None
    return engine


def _encoding(encode_batch: Callable[..., list[tokenizers.Encoding]], text: str) -> tokenizers.Encoding:
    """Encode the text alone, by one of the library's ways."""
    utf8_bytes(text)
    try:
        [encoding] = encode_batch([text], add_special_tokens=False)
    except Exception as error:  # the library raises bare `Exception`
        raise RequestError(f"the tokenizer cannot encode this text: {error}; use one that can") from None
    return encoding


def _tokens_in_order(ids: Mapping[str, int]) -> tuple[str, ...]:
    """Return the tokens by id; the ids must be 0..V-1, since a model has one row for each."""
    tokens = tuple(sorted(ids, key=ids.__getitem__))
    wrong = next((place for place, token in enumerate(tokens) if ids[token] != place), None)
    if wrong is not None or not tokens:
        raise RequestError(
            f"its {len(tokens)} ids are not 0..{len(tokens) - 1}: id {wrong or 0} is missing or there twice; "
            "give a tokenizer whose ids have no gaps"
        )
    return tokens


def _check_repeatable(model: Mapping[str, Any]) -> None:
    if model.get("dropout"):
        raise RequestError(
            f"its model has dropout {model['dropout']}, which draws other ids for the same text each time; "
            "set model.dropout to null in the file"
        )


def _check_keeps_all_text(parts: Mapping[str, Any], tokens: frozenset[str]) -> None:
    """Refuse a BPE that would drop what it does not know: without an unknown token it must know every byte."""
    model = parts["model"]
    if "merges" not in model or model.get("unk_token") is not None:
        return
    if model.get("byte_fallback"):
        needed = {f"<0x{byte:02X}>" for byte in range(256)}
    elif _names_type(parts.get("pre_tokenizer"), "ByteLevel") or _names_type(parts.get("normalizer"), "ByteLevel"):
        needed = set(BYTE_SYMBOLS.values())
    else:
        raise RequestError(
            "it has neither an unknown token nor tokens for bytes, so it would drop characters without a word; "
            "give one that is byte-level, has byte_fallback, or has model.unk_token"
        )
    missing = sorted(needed - tokens)
    if missing:
        raise RequestError(
            f"it has no unknown token, and {len(missing)} of the 256 bytes have no token (the first is "
            f"{missing[0]!r}), so it would drop characters without a word; train it with every byte in its alphabet"
        )


def _names_type(part: Mapping[str, Any] | None, name: str) -> bool:
    """Whether a normalizer or pre-tokenizer is of that type, or a sequence with one that is."""
    if part is None:
        return False
    inner = part.get("pretokenizers") or part.get("normalizers") or ()
    return part.get("type") == name or any(_names_type(one, name) for one in inner)


def usual_roles(special: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return (role, token) for each role that a special token of a usual name can fill.

    Example:
        >>> usual_roles({"<pad>", "<|endoftext|>", "<other>"})
        (('bos', '<|endoftext|>'), ('eos', '<|endoftext|>'), ('pad', '<pad>'))
    """
    found = {role: [name for name in names if name in special] for role, names in ROLE_NAMES.items()}
    return tuple((role, names[0]) for role, names in found.items() if names)


@dataclasses.dataclass(frozen=True)
class JsonTokenizer:
    """The tokenizer that a tokenizer.json describes (Hugging Face's format: BPE, Unigram, WordPiece, ...).

    Encoding gives the ids of the text alone: the document's truncation, padding and template (which would put a
    token such as `<s>` before it) are not used; `special_ids` has what one may want to put there. Decoding is the
    document's: many put a space before a text and take one away, and where they do, decoding one id by itself
    loses the space that the same id keeps inside a text.

    Args:
        document: the text of the tokenizer.json.
        roles: (role, token) for each role of `special_ids`, as `usual_roles` gives them.

    Raises:
        RequestError: not a tokenizer.json, ids with gaps, a role that no token fills, or a tokenizer that would
            drop characters or encode at random.

    Example:
        >>> tokenizer = JsonTokenizer.of(
        ...     '{"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"},'
        ...     ' "model": {"type": "WordLevel", "vocab": {"be": 0, "to": 1, "?": 2}, "unk_token": "?"}}'
        ... )
        >>> tokenizer.encode("to be or").tolist(), tokenizer.decode([1, 0])
        ([1, 0, 2], 'to be')
    """

    document: str = dataclasses.field(repr=False)
    roles: tuple[tuple[str, str], ...] = ()

    kind: ClassVar[str] = "tokenizer.json"

    def __post_init__(self) -> None:
        tokens = self._loaded.tokens  # a document that the library cannot read is refused here
        for role, token in self.roles:
            if role not in ROLE_NAMES or token not in tokens:
                raise RequestError(
                    f"the special token {token!r} has the role {role!r}; expected one of the tokenizer's tokens, and "
                    f"a role among {', '.join(ROLE_NAMES)}"
                )

    @classmethod
    def of(cls, document: str, roles: Mapping[str, str] | None = None) -> Self:
        """Return the tokenizer of `document`, its special tokens' roles taken from their usual names.

        Args:
            document: the text of a tokenizer.json; it is kept without white space.
            roles: {role: token}, over the usual names; a token that the document does not have is left out.

        Raises:
            RequestError: as the class does.
        """
        try:
            compact = json.dumps(json.loads(document), ensure_ascii=False, separators=(",", ":"))
        except (ValueError, RecursionError) as error:
            raise RequestError(f"not whole JSON ({error}); get an undamaged copy") from None
        loaded = _load(compact)
        named = {role: token for role, token in (roles or {}).items() if token in loaded.tokens}
        return cls(compact, tuple(sorted((dict(usual_roles(loaded.special)) | named).items())))

    @property
    def _loaded(self) -> _Loaded:
        return _load(self.document)

    @property
    def vocab_size(self) -> int:
        """Number of ids V, special tokens included."""
        return len(self._loaded.tokens)

    @property
    def special_ids(self) -> dict[str, int]:
        """Ids by role, of those that the tokenizer has among bos, eos, pad and mask."""
        return {role: self._loaded.tokens.index(token) for role, token in self.roles}

    def encode(self, text: str, *, parse_special: bool = False) -> np.ndarray:
        """Return the ids of `text`, int32 [N].

        Args:
            text: any text.
            parse_special: read the names of special tokens in the text as those tokens; by default they are text
                like any.

        Raises:
            RequestError: half a surrogate pair, or a text that the tokenizer has no ids for.
        """
        engine = _parsing_engine(self.document) if parse_special else self._loaded.engine
        return np.array(_encoding(engine.encode_batch_fast, text).ids, np.int32)  # fast: keeps no places

    def byte_counts(self, text: str) -> np.ndarray:
        """Return how many UTF-8 bytes of `text` each of its ids stands for, int32 [N].

        Byte-level tokens say it themselves. Of others, and where the text is changed on the way (a space put before
        it, a normalizer), the places in the text say it: what lies between the ends of two tokens belongs to the
        second one, and a character of several tokens to the first of them.

        Raises:
            RequestError: as `encode` does.
        """
        loaded = self._loaded
        encoding = _encoding(loaded.engine.encode_batch, text)
        ends = np.concatenate([[0], np.cumsum(utf8_lengths(text))])
        if (loaded.decoder or {}).get("type") == "ByteLevel":
            counts_N = symbol_counts(loaded.tokens)[encoding.ids]
            if counts_N.sum() == ends[-1]:
                return counts_N
        reached_N = ends[[end for _, end in encoding.offsets]]
        reached_N[-1:] = ends[-1]
        return np.diff(reached_N, prepend=0).astype(np.int32)

    def id_bytes(self) -> np.ndarray | None:
        """Return how many bytes each id of a byte-level vocabulary stands for, int32 [V]; None for any other.

        A special token stands for none.
        """
        loaded = self._loaded
        if (loaded.decoder or {}).get("type") != "ByteLevel":
            return None
        is_text_V = np.array([token not in loaded.special for token in loaded.tokens])
        return symbol_counts(loaded.tokens) * is_text_V.astype(np.int32)

    def decode(self, ids: ArrayLike) -> str:
        """Return the text of `ids` [N] as the document's decoder makes it; special tokens are shown by name.

        Raises:
            RequestError: ids that are not one row, or one that is no whole number or outside the vocabulary.
        """
        return self._loaded.engine.decode(id_row(ids, self.vocab_size).tolist(), skip_special_tokens=False)

    def to_json(self) -> dict[str, Any]:
        """Return `{"kind": "tokenizer.json", "document": its text, "roles": {role: token}}`."""
        return {"kind": self.kind, "document": self.document, "roles": dict(self.roles)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Rebuild a tokenizer from `to_json`'s record.

        Raises:
            RequestError: another kind, missing or unknown fields, or a document that the constructor refuses.
        """
        check_record(record, cls.kind, document=str, roles=dict)
        return cls(record["document"], tuple(sorted(record["roles"].items())))

    def fingerprint(self) -> str:
        """Return the sha256 (hex) of the tokens in id order and of how they become text."""
        return vocabulary_fingerprint(self._loaded.tokens, self._loaded.decoder)
