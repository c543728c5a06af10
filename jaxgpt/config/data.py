"""The section of a run that says what it trains on."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from .errors import RequestError
from .section import Section, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataConfig(Section):
    """What the model is trained on."""

    section: ClassVar[str] = "data"

    path: str | tuple[str, ...] | None = option(
        None,
        "A UTF-8 text, a token file (jaxgpt data prepare) or a .bin of nanoGPT or llm.c, for an encoder_decoder "
        "lines of source TAB target; given several times, files that are mixed by data.weights; none means a "
        "built-in text (Python's own manual) or built-in pairs (dates).",
    )
    weights: tuple[float, ...] | None = option(
        None,
        "Of several files each one's share of the examples, as any numbers in proportion; none means equal shares.",
        above=0,
    )
    format: Literal["auto", "text", "uint16", "uint32"] = option(
        "auto",
        "What files without a header hold; auto takes what is named .bin and is no UTF-8 text for uint16 ids, and "
        "all else for text.",
    )
    tokenizer: str | None = option(
        None,
        "How text becomes ids: characters, bytes, gpt2, or the path of a tokenizer's file or folder; none means the "
        "one of train.init_from or of the token file, or else characters. A .bin needs the one it was written with.",
    )
    validation_fraction: float = option(
        0.1, "Share of the characters (or tokens, or pairs), from the end, kept for validation.", above=0, below=1
    )
    validation_path: str | None = option(
        None, "A file to validate on, all of it; data.path is then trained on to its end."
    )
    pack_documents: bool = option(
        False,
        "Let no token see another document than its own, and predict no document's first token from the one before "
        "it; takes files whose documents end in an end token.",
    )
    mask_rate: float = option(
        0.15, "Share of the tokens that an encoder has to guess, at each step and in evaluations.", above=0, below=1
    )

    @property
    def paths(self) -> tuple[str | None, ...]:
        """The files to train on; (None,) for the built-in text."""
        return self.path if isinstance(self.path, tuple) else (self.path,)

    def check(self) -> None:
        if self.weights is not None and len(self.weights) != len(self.paths):
            raise RequestError(
                f"data.weights has {len(self.weights)} numbers for {len(self.paths)} files of data.path; give one "
                "for each file, or none for equal shares"
            )
        if self.weights is not None and len(self.paths) == 1:
            raise RequestError("data.weights means nothing with one file; leave it out, or give several as data.path")
        if self.validation_path is not None and self.validation_fraction != DataConfig.validation_fraction:
            raise RequestError(
                f"data.validation_fraction {self.validation_fraction:g} means nothing with data.validation_path, "
                "which is for validation as a whole; leave one of them out"
            )
