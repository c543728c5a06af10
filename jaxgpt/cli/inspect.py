"""`jaxgpt inspect`: what a run directory holds, and what differs between two."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxgpt.config import some

from .parser import Parser

if TYPE_CHECKING:
    from jaxgpt.runs.comparison import Comparison
    from jaxgpt.runs.inspection import CheckpointFacts, Inspection

_DESCRIPTION = """List what a run directory holds: checkpoints with sizes and hashes, settings, data, progress.

With OTHER it says what differs between two runs, down to the arrays and the first logged step.
"""


def main(arguments: list[str]) -> int:
    """Run the sub-command.

    Returns:
        0, or 1 where `--verify` finds a checkpoint that is damaged.
    """
    options = _parser().parse(arguments)

    from jaxgpt.runs.comparison import compare
    from jaxgpt.runs.inspection import inspect, verify

    found = [inspect(Path(path)) for path in (options.run, options.other) if path is not None]
    if options.verify:
        found = [verify(inspection) for inspection in found]
    comparison = compare(*found) if len(found) == 2 else None
    print(_as_json(found, comparison) if options.json else "\n".join(_as_text(found, comparison, options.verify)))
    damaged = any(facts.damage for inspection in found for facts in inspection.checkpoints)
    return 1 if options.verify and damaged else 0


def _parser() -> Parser:
    parser = Parser(prog="jaxgpt inspect", description=_DESCRIPTION)
    parser.add_argument("run", metavar="RUN", help="a run directory")
    parser.add_argument("other", metavar="OTHER", nargs="?", help="another, to compare with the first")
    parser.add_argument(
        "--verify",
        action="store_true",
        help="read every array and compare it with its hash; exit code 1 where one differs (default: records only)",
    )
    parser.add_argument("--json", action="store_true", help="print the same as JSON (default: a page of text)")
    return parser


def _as_json(found: list[Inspection], comparison: Comparison | None) -> str:
    document: Any = [_document(inspection) for inspection in found]
    if comparison is None:
        return json.dumps(document[0], indent=2)
    return json.dumps({"runs": document, "differences": _plain(dataclasses.asdict(comparison))}, indent=2)


def _document(inspection: Inspection) -> dict[str, Any]:
    manifest = inspection.run.manifest
    document = {
        "path": str(inspection.run.path),
        "command": manifest.command,
        "steps": manifest.config.train.steps,
        "last": inspection.last,
        "best": inspection.best,
        "checkpoints": [dataclasses.asdict(facts) for facts in inspection.checkpoints],
        "set_aside": inspection.set_aside,
        "unfinished": inspection.unfinished,
        "settings": inspection.settings,
        "data": manifest.data,
        "tokenizer": inspection.tokenizer,
        "versions": manifest.versions,
        "devices": manifest.devices,
        "logged": {name: inspection.last_logged(name) for name in ("loss", "validation_loss")},
    }
    return _plain(document)


def _plain(value: Any) -> Any:
    """Return a document without what JSON has no word for: numbers that are not finite are given in words."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _as_text(found: list[Inspection], comparison: Comparison | None, verified: bool) -> list[str]:
    lines = [line for inspection in found for line in [*_page(inspection, verified), ""]]
    return lines[:-1] if comparison is None else [*lines, *_difference_lines(comparison)]


def _page(inspection: Inspection, verified: bool) -> list[str]:
    manifest = inspection.run.manifest
    return [
        str(inspection.run.path),
        f"  command: {manifest.command or 'none, it was made from Python'}",
        f"  progress: {_progress(inspection)}",
        f"  data: {_words(manifest.data)}",
        f"  tokenizer: {_words(inspection.tokenizer or {})}",
        f"  devices: {_words(manifest.devices)}",
        f"  versions: {_words(manifest.versions)}",
        *_setting_lines(inspection.settings),
        *_checkpoint_lines(inspection, verified),
    ]


def _progress(inspection: Inspection) -> str:
    saved = "nothing saved" if inspection.last is None else f"saved up to step {inspection.last}"
    logged = [
        f"{name.replace('_', ' ')} {value:.4f} at step {step}"
        for name in ("loss", "validation_loss")
        for step, value in [inspection.last_logged(name) or (None, None)]
        if step is not None
    ]
    return f"{saved} of {inspection.run.manifest.config.train.steps}; last logged: {', '.join(logged) or 'nothing'}"


def _setting_lines(settings: Mapping[str, Any]) -> list[str]:
    listed = [f"    {name} = {value}" for name, value in settings.items()]
    return ["  settings that differ from the defaults:", *(listed or ["    none"])]


def _checkpoint_lines(inspection: Inspection, verified: bool) -> list[str]:
    what = "every array read and equal to its hash" if verified else "records read; --verify reads the arrays too"
    lines = [
        f"  checkpoints ({what}, unless it says damaged):",
        "        step        MB  hash          validation loss",
    ]
    lines += [_checkpoint_line(inspection, facts) for facts in inspection.checkpoints]
    if inspection.set_aside:
        lines.append(f"  found damaged and moved to {inspection.run.path / 'damaged'}: {some(inspection.set_aside)}")
    if inspection.unfinished:
        lines.append(f"  being written, or never finished: {some(inspection.unfinished)}")
    return lines


def _checkpoint_line(inspection: Inspection, facts: CheckpointFacts) -> str:
    start = f"    {facts.step:>8}  {facts.bytes / 1e6:>8,.1f}"
    if facts.damage is not None:
        return f"{start}  damaged: {facts.damage}"
    loss = "-" if facts.validation_loss is None else f"{facts.validation_loss:.4f}"
    marks = [mark for mark in ("last", "best") if getattr(inspection, mark) == facts.step]
    return f"{start}  {facts.hash[:12]}  {loss:<15}  {', '.join(marks)}".rstrip()


def _difference_lines(comparison: Comparison) -> list[str]:
    lines = ["differences (first run, second run):"]
    for kind in ("settings", "data", "tokenizer", "versions", "devices"):
        pairs = getattr(comparison, kind)
        lines.append(f"  {kind}: {'' if pairs else 'none'}".rstrip())
        lines += [f"    {name}: {_short(one)}, {_short(other)}" for name, (one, other) in pairs.items()]
    lines += [f"  arrays at step {step}: {_array_words(paths)}" for step, paths in comparison.arrays.items()]
    if not comparison.arrays:
        lines.append("  arrays: no step of which both have a sound checkpoint")
    return [*lines, f"  logged numbers: {_logged_words(comparison)}"]


def _array_words(paths: list[str]) -> str:
    return f"{len(paths)} differ: {some(paths)}" if paths else "all equal"


def _logged_words(comparison: Comparison) -> str:
    if comparison.first_difference is None:
        return f"equal on the {comparison.common_lines} lines that both have"
    step, pairs = comparison.first_difference
    values = ", ".join(f"{name} {one!r}, {other!r}" for name, (one, other) in pairs.items())
    return f"equal before step {step}, there {values}"


def _words(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_short(value)}" for name, value in facts.items()) or "none"


def _short(value: Any) -> str:
    """Return a value in words; of a hash the beginning."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text[:12] if len(text) == 64 and set(text) <= set("0123456789abcdef") else text
