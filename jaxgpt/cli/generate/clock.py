"""Where the time of `jaxgpt generate` goes: reading prompts, making tokens, and compiling apart from both."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jax

from jaxgpt.runs.memory import peak_memory

if TYPE_CHECKING:
    from jaxgpt.generation.generate import GenerationStream
    from jaxgpt.generation.rows import Piece

_COMPILING = {
    f"/jax/core/compile/{part}_duration" for part in ("jaxpr_trace", "jaxpr_to_mlir_module", "backend_compile")
}


class Phase:
    """Tokens, and the seconds that they took."""

    def __init__(self) -> None:
        self.tokens, self.seconds = 0, 0.0

    @property
    def rate(self) -> str:
        """Tokens per second, in words."""
        return f"{self.tokens / self.seconds:,.0f} tokens/s" if self.tokens and self.seconds else "no time measured"


class Clock:
    """Watches the work from `started` on, a time of `time.perf_counter`; compiling counts into no phase."""

    def __init__(self, started: float) -> None:
        self.reading, self.making = Phase(), Phase()
        self._started = started
        self._first: float | None = None
        self._first_tokens = self._drafted = self._kept = 0
        self._spans: list[tuple[float, float]] = []

    @property
    def compiling(self) -> float:
        """Seconds of compiling so far."""
        return sum(end - start for start, end in self._spans)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Hear of what JAX compiles."""
        jax.monitoring.register_event_duration_secs_listener(self._hear)
        try:
            yield
        finally:
            jax.monitoring.unregister_event_duration_listener(self._hear)

    def _hear(self, event: str, seconds: float, **_: Any) -> None:
        """Add a span that ends now; those inside it, of functions that it called, are part of it."""
        if event in _COMPILING:
            end = time.perf_counter()
            start = end - seconds
            while self._spans and self._spans[-1][0] >= start:
                self._spans.pop()
            self._spans.append((max(start, self._spans[-1][1] if self._spans else start), end))

    @contextlib.contextmanager
    def within(self, phase: Phase) -> Iterator[None]:
        """Add the seconds of the block to a phase."""
        began, compiled = time.perf_counter(), self.compiling
        try:
            yield
        finally:
            phase.seconds += time.perf_counter() - began - (self.compiling - compiled)

    def watched(self, stream: GenerationStream, *, read: int, rows: int) -> Iterator[Piece]:
        """Yield the pieces of a batch; up to the first one prompts are read, then tokens are made.

        Args:
            stream: The batch.
            read: How many tokens its prompts have.
            rows: How many of its rows were asked for; what comes behind them is neither counted nor yielded.
        """
        pieces, phase, seen = iter(stream), self.reading, set()
        while True:
            with self.within(phase):
                piece = next(pieces, None)
            if piece is None:
                break
            phase = self.making
            if piece.row < rows:
                self._count(piece, seen, read)
                yield piece
        self._drafted += int(stream.rows.drafted_B[:rows].sum())
        self._kept += int(stream.rows.kept_B[:rows].sum())

    def _count(self, piece: Piece, seen: set[int], read: int) -> None:
        """Count new tokens; each row's first one came with reading its prompt."""
        if not piece.ids:
            return
        if self._first is None:
            self._first = time.perf_counter()
        self.reading.tokens += 0 if seen else read
        first = piece.row not in seen
        seen.add(piece.row)
        self._first_tokens += first
        self.making.tokens += len(piece.ids) - first

    def lines(self) -> list[str]:
        """Return what to say at the end."""
        read, made = self.reading, self.making
        parts = [f"prompt: {read.tokens:,} tokens, {read.rate}"]
        if self._first is not None:
            count, waited = made.tokens + self._first_tokens, self._first - self._started
            then = f", then {made.rate}" if made.tokens else ""
            parts.append(f"new: {count:,} tokens, the first after {waited:.2f} s{then}")
        if self._drafted:
            parts.append(f"lookup: {self._kept / self._drafted:.0%} of {self._drafted:,} drafted tokens kept")
        compiling = f"compiling: {self.compiling:.2f} s, not in the rates"
        return ["; ".join(parts), f"{compiling}; peak memory: {peak_memory()}"]
