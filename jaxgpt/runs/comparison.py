"""What differs between two runs, from what both have recorded."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxgpt.config import flatten

from .inspection import Inspection
from .metrics import MEASURED

Pair = tuple[Any, Any]  # of the one run and of the other; None where one has none


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What differs between two runs.

    Attributes:
        settings, data, tokenizer, versions, devices: `{name: (one's, other's)}` of what differs.
        arrays: `{step: paths of the arrays that differ}` at every step that both have a checkpoint of; an array that
            only one of them has differs. Their recorded hashes are compared.
        common_lines: how many logged lines both have.
        first_difference: (step, {name: (one's, other's)}) of the first of them whose numbers differ, what a clock
            gave aside; None where all agree.
    """

    settings: dict[str, Pair]
    data: dict[str, Pair]
    tokenizer: dict[str, Pair]
    versions: dict[str, Pair]
    devices: dict[str, Pair]
    arrays: dict[int, list[str]]
    common_lines: int
    first_difference: tuple[int, dict[str, Pair]] | None


def compare(one: Inspection, other: Inspection) -> Comparison:
    """Return what differs between two runs.

    Args:
        one, other: Both as `inspect` returns them.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from jaxgpt.config import ModelConfig
        >>> from jaxgpt.runs.inspection import inspect
        >>> config = ModelConfig.preset("minigpt")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for seed in (0, 1):
        ...         jaxgpt.save(f"{folder}/{seed}", config, jaxgpt.init(config, key=jax.random.key(seed)))
        ...     found = compare(*(inspect(Path(folder) / name) for name in "01"))
        >>> found.settings, found.arrays[0][0]
        ({}, 'params/blocks_0/attention/k/kernel')
    """
    manifests = one.run.manifest, other.run.manifest
    first, common = _first_difference(one, other)
    return Comparison(
        settings=differences(*(flatten(manifest.config) for manifest in manifests)),
        data=differences(*(manifest.data for manifest in manifests)),
        tokenizer=differences(one.tokenizer or {}, other.tokenizer or {}),
        versions=differences(*(manifest.versions for manifest in manifests)),
        devices=differences(*(manifest.devices for manifest in manifests)),
        arrays=_arrays(one, other),
        common_lines=common,
        first_difference=first,
    )


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Pair]:
    """Return `{name: (one's, other's)}` of the values that differ, None for one that is not there.

    >>> differences({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4})
    {'b': (2, 3), 'c': (None, 4)}
    """
    names = dict.fromkeys([*one, *other])
    pairs = {name: (one.get(name), other.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if not _same(*pair)}


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are equal; a NaN equals a NaN."""
    return one == other or (one != one and other != other)


def _arrays(one: Inspection, other: Inspection) -> dict[int, list[str]]:
    ours, theirs = (
        {facts.step: facts.arrays for facts in inspection.checkpoints if facts.damage is None}
        for inspection in (one, other)
    )
    return {step: sorted(differences(ours[step], theirs[step])) for step in sorted(ours.keys() & theirs.keys())}


def _first_difference(one: Inspection, other: Inspection) -> tuple[tuple[int, dict[str, Pair]] | None, int]:
    """Return the first common line whose numbers differ, and how many lines are common."""
    ours, theirs = _lines(one), _lines(other)
    common = [key for key in ours if key in theirs]
    found = ((step, differences(ours[step, kind], theirs[step, kind])) for step, kind in common)
    return next(((step, pairs) for step, pairs in found if pairs), None), len(common)


def _lines(inspection: Inspection) -> dict[tuple[int, bool], dict[str, float]]:
    """Return {(step, whether it is an evaluation): its numbers} without what a clock gave."""
    return {
        (line["step"], "validation_loss" in line): {
            name: value for name, value in line.items() if name not in MEASURED
        }
        for line in inspection.lines
    }
