"""How `jaxgpt generate` shows its answers: as text, the one text piece by piece, or as JSON."""

from __future__ import annotations

import json
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from jaxgpt.generation.text import TextPieces


class Answer(NamedTuple):
    """What was asked, and what the model said to it; None is what its family does not have, or was not asked for."""

    source: str | None
    prompt: str | None
    text: str
    ids: list[int]
    stop_reason: str | None = None
    sample: int | None = None
    logprobs: list[float] | None = None

    def fields(self) -> dict[str, Any]:
        """Return what there is."""
        return {name: value for name, value in self._asdict().items() if value is not None}


class Shown:
    """Shows answers in their order, each as soon as it and all before it are there."""

    def __init__(self) -> None:
        self._early: dict[int, Answer] = {}
        self._next = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Nothing is left to show."""

    def more(self, ids: list[int]) -> None:
        """All ids so far of the only row: most ways of showing wait for its end."""

    def complete(self, row: int, answer: Answer) -> None:
        """A row is complete; rows are numbered from 0."""
        self._early[row] = answer
        while self._next in self._early:
            self._show(self._early.pop(self._next))
            self._next += 1

    def _show(self, answer: Answer) -> None:
        raise NotImplementedError


class Texts(Shown):
    """The texts, a line of dashes between them; a line that was begun is ended, whatever happens."""

    def __init__(self, pieces: TextPieces | None = None) -> None:
        """With `pieces`, the only text is shown as it comes."""
        super().__init__()
        self._pieces = pieces
        self._begun = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._begun and kind is not BrokenPipeError:
            _write("\n")

    def more(self, ids: list[int]) -> None:
        if self._pieces is not None:
            self._begun = True
            _write(self._pieces.more(ids))

    def _show(self, answer: Answer) -> None:
        if self._pieces is not None:
            text = self._pieces.rest(answer.text)
        else:
            text = f"\n---\n{answer.text}" if self._begun else answer.text
        self._begun = True
        _write(text)


class Lines(Shown):
    """One JSON object per answer."""

    def _show(self, answer: Answer) -> None:
        _write(json.dumps(answer.fields(), ensure_ascii=False) + "\n")


class Document(Shown):
    """One JSON document with all answers, printed once all are there."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self._step = step
        self._results: list[dict[str, Any]] = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if kind is None:
            _write(json.dumps({"step": self._step, "results": self._results}, ensure_ascii=False) + "\n")

    def _show(self, answer: Answer) -> None:
        self._results.append(answer.fields())


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
