"""The record in each checkpoint: its step, its validation loss, what its arrays hash to, and a hash of all that."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .trees import Signature, content_hashes, signature

Arrays = Mapping[str, Mapping[str, np.ndarray]]  # item -> path -> array
Losses = Mapping[int, float]  # step -> validation loss


class DamagedError(Exception):
    """A checkpoint is not what was written; the message is the reason, in one line."""


def make_record(step: int, items: Arrays, loss: float | None) -> dict[str, Any]:
    """Return the JSON record of the checkpoint of `step`: its items, and the validation loss if it was measured."""
    body = {
        "step": step,
        "validation_loss": loss,
        "items": {name: _entries(arrays) for name, arrays in items.items()},
    }
    return body | {"sha256": _hash_of(body)}


def check_record(record: Any, step: int) -> None:
    """Raise DamagedError unless the record's own hash fits, and it is that of `step`."""
    if not isinstance(record, dict):
        raise DamagedError("its record is not a JSON object")
    body = {name: value for name, value in record.items() if name != "sha256"}
    if _hash_of(body) != record.get("sha256"):
        raise DamagedError("its record does not match the record's own hash")
    if record.get("step") != step:
        raise DamagedError(f"its record is that of step {record.get('step')}")


def recorded_signatures(record: Mapping[str, Any], item: str) -> dict[str, Signature]:
    """Return `{path: signature}` of one item of a checked record."""
    return {path: (entry["dtype"], tuple(entry["shape"])) for path, entry in record["items"][item].items()}


def check_arrays(record: Mapping[str, Any], items: Arrays) -> None:
    """Raise DamagedError naming the first array that is not what the record says."""
    for item, arrays in items.items():
        entries = record["items"][item]
        hashes = content_hashes(arrays)
        for path, entry in entries.items():
            if hashes.get(path) != entry["sha256"]:
                raise DamagedError(f"{item}/{path} differs from what was written")


def best_step(losses: Losses) -> int | None:
    """Return the step of the lowest loss, the earliest of equal ones; None where none is finite.

    >>> best_step({3: 2.5, 6: 2.0, 9: 2.0}), best_step({3: float("nan"), 6: float("inf")})
    (6, None)
    """
    finite = [step for step, loss in losses.items() if math.isfinite(loss)]
    return min(finite, key=lambda step: (losses[step], step), default=None)


def _entries(arrays: Mapping[str, np.ndarray]) -> dict[str, dict[str, Any]]:
    hashes = content_hashes(arrays)
    entries = {}
    for path, array in arrays.items():
        dtype, shape = signature(array)
        entries[path] = {"dtype": dtype, "shape": list(shape), "sha256": hashes[path]}
    return entries


def _hash_of(body: Mapping[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
