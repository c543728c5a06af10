"""The sources of a run: opened as its settings say, checked, and known again when it goes on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from jaxgpt.config import DataConfig, RequestError

from .corpus import Corpus, check_same_corpus, load_corpus, size_words
from .source import Say, Source
from .stored import StoredIds, open_stored
from .tokenizer import CharacterTokenizer, Tokenizer
from .tokenizer.special import with_roles


def open_source(
    path: str | None,
    name: str = "data.path",
    *,
    form: str = "auto",
    built_in: Callable[[], Corpus] | None = None,
) -> Source:
    """Return what a file holds: a text, or ids; its beginning says which.

    Args:
        path: The file; None is a built-in text.
        name: The option that gave the path, in the words that begin a message.
        form: `data.format`.
        built_in: Makes another built-in text than the manual.

    Raises:
        RequestError: the file cannot be read, is damaged, or it is not clear what it holds.

    Example:
        >>> open_source(None).kind
        'text'
    """
    stored = None if path is None else open_stored(path, form, name)
    return load_corpus(path, name, built_in=built_in) if stored is None else stored


@dataclasses.dataclass(frozen=True)
class Sources:
    """What a run trains and validates on.

    Attributes:
        training: The sources to train on.
        weights: Of each, in any proportion.
        validation: A source to validate on, or None, where the last part of each source to train on is for that.
    """

    training: tuple[Source, ...]
    weights: tuple[float, ...]
    validation: Source | None

    @classmethod
    def open(cls, data: DataConfig, built_in: Callable[[], Corpus]) -> Self:
        """Open the sources that the settings name.

        Raises:
            RequestError: as `open_source` and `check_format`; or a file of ids without a tokenizer that
                `data.tokenizer` does not name.
        """
        training = tuple(open_source(path, form=data.format, built_in=built_in) for path in data.paths)
        validation = None
        if data.validation_path is not None:
            validation = open_source(data.validation_path, "data.validation_path", form=data.format)
        files = [source for path, source in zip(data.paths, training, strict=True) if path is not None]
        check_format(data.format, files if validation is None else [*files, validation], "data.format")
        sources = cls(training, data.weights or (1.0,) * len(training), validation)
        sources._check_named(data.tokenizer)
        return sources

    @property
    def all(self) -> tuple[Source, ...]:
        """Every source, that for validation last."""
        return self.training if self.validation is None else (*self.training, self.validation)

    @property
    def identity(self) -> dict[str, Any]:
        """What a run's manifest keeps: of a single source its identity, of several a list of them."""
        if len(self.all) == 1:
            return self.training[0].identity
        own = {} if self.validation is None else {"validation": self.validation.identity}
        return {"training": [source.identity for source in self.training], **own}

    @property
    def text(self) -> str | None:
        """All text, from which a tokenizer may be made; None where a source holds ids already."""
        if any(isinstance(source, StoredIds) for source in self.all):
            return None
        return "".join(source.text for source in self.all)

    def words(self) -> str:
        """Return what the sources are."""
        return "; ".join(source_words(source) for source in self.all)

    def own_tokenizer(self, roles: Sequence[str]) -> Tokenizer | None:
        """Return the tokenizer that token files bring along, with the special tokens of `roles`; None without any.

        Raises:
            RequestError: two of them differ.
        """
        bringing = [source for source in self.all if source.tokenizer is not None]
        for other in bringing[1:]:
            check_tokenizer(bringing[0].tokenizer, other, (), bringing[0].source)
        return with_roles(bringing[0].tokenizer, roles) if bringing else None

    def checked(self, tokenizer: Tokenizer, roles: Sequence[str], say: Say) -> Self:
        """Return the sources, once all ids are known to be those of `tokenizer`; reads each file of ids once.

        Raises:
            RequestError: a file of another tokenizer, an id outside the vocabulary, a damaged file, or one that is
                there twice.
        """
        for source in self.all:
            if source.tokenizer is not None:
                check_tokenizer(tokenizer, source, roles, "this run's tokenizer")
        training = tuple(source.checked(tokenizer, say) for source in self.training)
        validation = None if self.validation is None else self.validation.checked(tokenizer, say)
        _refuse_twice(training, validation)
        return dataclasses.replace(self, training=training, validation=validation)

    def changed(self) -> list[str]:
        """Return the files of ids that were written to since they were opened; a text is in memory."""
        stamps = [source.stamp for source in self.all if isinstance(source, StoredIds) and source.stamp is not None]
        return [stamp.path for stamp in stamps if stamp.has_changed()]

    def check_same(self, recorded: Mapping[str, Any]) -> None:
        """Refuse to go on with other sources than those that a manifest recorded; files may move.

        Raises:
            RequestError: their number or the content of one differs.
        """
        before = recorded_identities(recorded)
        if len(before) != len(self.all):
            raise RequestError(
                f"this run was on {len(before)} files, but now there are {len(self.all)}; give the same ones as "
                "data.path and data.validation_path, or start a new run"
            )
        options = ["data.path"] * len(self.training) + ["data.validation_path"]
        for identity, source, option in zip(before, self.all, options, strict=False):
            check_same_corpus(identity, source, option=option)

    def _check_named(self, tokenizer: str | None) -> None:
        for source in self.all:
            if isinstance(source, Corpus):
                continue
            if tokenizer == CharacterTokenizer.kind:
                raise RequestError(
                    f"data.tokenizer {tokenizer} is made from a text, but {source.source} holds ids already; name "
                    "the file of the tokenizer that they were written with, or for a token file none"
                )
            if tokenizer is None and source.tokenizer is None:
                raise RequestError(
                    f"{source.source} holds {source.kind} and nothing says which tokenizer they were written with; "
                    "name it in data.tokenizer (for example gpt2), or if it is text say so with data.format"
                )


def check_format(form: str, files: Sequence[Source], option: str) -> None:
    """Refuse a format where each file says itself what it holds.

    Raises:
        RequestError: as above.

    Example:
        >>> check_format("text", [Corpus.of("to be", "hamlet.txt")], "data.format")
    """
    if form != "auto" and all(isinstance(source, StoredIds) and source.has_header for source in files):
        raise RequestError(
            f"{option} {form} means nothing without a file that has no header to say what it holds; leave it out"
        )


def _refuse_twice(training: Sequence[Source], validation: Source | None) -> None:
    """Refuse the same content in two places: a mixture counts each file once, and validation is on another."""
    seen: dict[str, str] = {}
    for source in training:
        digest = source.identity["sha256"]
        if digest in seen:
            raise RequestError(
                f"data.path: {source.source} holds the same as {seen[digest]}; name it once, data.weights say "
                "how often it comes"
            )
        seen[digest] = source.source
    same = None if validation is None else seen.get(validation.identity["sha256"])
    if same is not None:
        raise RequestError(
            f"data.validation_path: {validation.source} holds the same as {same}, which is trained on; name another "
            "file, or none, and data.validation_fraction keeps a part from training"
        )


def check_tokenizer(expected: Tokenizer, source: Source, roles: Sequence[str], owner: str) -> None:
    """Refuse ids that mean something else; by which rules a text became ids is no matter any more."""
    found = with_roles(source.tokenizer, roles)
    if found.fingerprint() == expected.fingerprint():
        return
    shared = range(min(found.vocab_size, expected.vocab_size))
    differs = next((i for i in shared if found.decode([i]) != expected.decode([i])), None)
    now, other = (_difference_words(tokenizer, differs) for tokenizer in (found, expected))
    raise RequestError(
        f"{source.source} was written with a tokenizer of {found.vocab_size} ids{now}, but {owner} has "
        f"{expected.vocab_size}{other}; prepare the file again with that one"
    )


def _difference_words(tokenizer: Tokenizer, differs: int | None) -> str:
    """Return what the first id that differs means; where none does, which special tokens there are."""
    if differs is not None:
        return f", in which id {differs} means {tokenizer.decode([differs])!r}"
    special = ", ".join(f"{role} {token}" for role, token in tokenizer.special_ids.items())
    return f" (kind {tokenizer.kind}, special tokens: {special or 'none'})"


def recorded_identities(recorded: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the identities of all sources that a manifest recorded, that for validation last.

    >>> recorded_identities({"training": [{"sha256": "1"}], "validation": {"sha256": "2"}})
    [{'sha256': '1'}, {'sha256': '2'}]
    """
    if "training" not in recorded:
        return [recorded]
    return [*recorded["training"], *([recorded["validation"]] if "validation" in recorded else [])]


def source_words(source: Source) -> str:
    """Return what a source is and how large."""
    kind = "" if isinstance(source, Corpus) else f"{source.kind}, "
    return f"{source.source}, {kind}{size_words(source.identity)}"
