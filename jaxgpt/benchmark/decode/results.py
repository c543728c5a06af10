"""What was found: a row for each contestant at each workload, beside what no step can beat."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from jaxgpt.benchmark.timing import Spread

from .verify import Check
from .workload import CONVENTION, Model, Workload

CACHED, STORED, UNCACHED, TRANSFORMERS = "cached", "cached, as stored", "uncached", "transformers"

LEGEND = {
    CACHED: "jaxgpt.generate, parameters laid out by jaxgpt.prepare",
    STORED: "the same with the parameters as they are stored",
    UNCACHED: "a pass over the whole text for each token; a few steps, evenly spread, stand for all",
    TRANSFORMERS: "its own generate, greedy, with its cache, on the same weights",
}


@dataclasses.dataclass(frozen=True)
class Row:
    """One contestant at one workload.

    Attributes:
        contestant: Its name.
        compile_seconds: What its first call took longer than a later one; None where it was not timed.
        close: Tokens that are not those of the full pass because two logits lie close.
        first, step: Spreads of the seconds until the first token, and of a step behind it; None where not timed.
        left_out: Why it was not timed; None where it was.
        wrong: Whether that is because a token was wrong.
    """

    contestant: str
    compile_seconds: float | None = None
    close: int = 0
    first: Spread | None = None
    step: Spread | None = None
    left_out: str | None = None
    wrong: bool = False


@dataclasses.dataclass(frozen=True)
class Group:
    """All contestants at one workload.

    Attributes:
        workload: What was generated.
        rows: In the order of the report.
        reading: Seconds of reading a step's bytes and nothing else, timed in turn with the rows.
    """

    workload: Workload
    rows: tuple[Row, ...]
    reading: Spread

    def row(self, contestant: str) -> Row | None:
        """Return the timed row of a contestant, None where it was not timed."""
        return next((row for row in self.rows if row.contestant == contestant and row.step), None)

    def tokens_per_second(self, row: Row) -> float:
        """New tokens a second behind the first ones, all rows together."""
        return self.workload.B / row.step.median

    def share(self, row: Row) -> float:
        """How much of what reading alone allows was reached."""
        return self.reading.median / row.step.median

    def gigabytes_per_second(self, seconds: float) -> float:
        """10^9 bytes a second, for a step's bytes."""
        return self.workload.step_bytes / seconds / 1e9

    def times(self, row: Row, other: str) -> float | None:
        """How many times as fast as another contestant a row makes a step; None where that was not timed."""
        reference = self.row(other)
        return None if reference is None else reference.step.median / row.step.median


@dataclasses.dataclass(frozen=True)
class Results:
    """All groups, of what they were measured, and on what.

    Attributes:
        model: What generated.
        groups: One for each batch.
        prepare_seconds: What laying out the parameters takes.
        peer_threads: On how many threads PyTorch ran; None without peers.
        environment: As `benchmark.machine.environment` tells.
    """

    model: Model
    groups: tuple[Group, ...]
    prepare_seconds: float
    peer_threads: int | None
    environment: dict[str, Any]

    @property
    def wrong(self) -> list[str]:
        """What was refused because a token was wrong, each in words."""
        return [
            f"{row.contestant} at {group.workload.name}: {row.left_out}"
            for group in self.groups
            for row in group.rows
            if row.wrong
        ]

    def pays_back_after(self, group: Group) -> float | None:
        """Return after how many steps laying out the parameters has paid; infinity for never, None if not timed."""
        slow, quick = group.row(STORED), group.row(CACHED)
        if slow is None or quick is None:
            return None
        gain = slow.step.median - quick.step.median
        return math.ceil(self.prepare_seconds / gain) if gain > 0 else math.inf


def as_record(results: Results, command: str) -> dict[str, Any]:
    """Return everything in JSON's types; times are in seconds."""
    return {
        "command": command,
        "convention": CONVENTION,
        "checked": Check.scope,
        "environment": results.environment,
        "model": {"name": results.model.name, "source": results.model.source},
        "prepare_seconds": results.prepare_seconds,
        "peer_threads": results.peer_threads,
        "groups": [_group_record(group) for group in results.groups],
    }


def _group_record(group: Group) -> dict[str, Any]:
    return {
        "workload": group.workload.as_record(),
        "reading": group.reading._asdict(),
        "reading_gigabytes_per_second": group.gigabytes_per_second(group.reading.median),
        "rows": [_row_record(group, row) for row in group.rows],
    }


def _row_record(group: Group, row: Row) -> dict[str, Any]:
    record = dataclasses.asdict(row) | {"first": row.first and row.first._asdict()}
    if row.step is None:
        return record
    return record | {
        "step": row.step._asdict(),
        "tokens_per_second": group.tokens_per_second(row),
        "of_bound": group.share(row),
        "times_transformers": group.times(row, TRANSFORMERS),
        "times_uncached": group.times(row, UNCACHED),
    }
