"""The folders of a run's checkpoints, one for each step, named by its number."""

from __future__ import annotations

from pathlib import Path


def saved_steps(directory: Path) -> list[int]:
    """Return the steps of the committed checkpoints in a folder, ascending; none of them has been checked."""
    return sorted(int(path.name) for path in _entries(directory) if _is_step(path.name) and path.is_dir())


def unfinished_names(directory: Path) -> list[str]:
    """Return the names of what is being written in a folder of checkpoints, or was left by a killed process."""
    names = sorted(path.name for path in _entries(directory))
    return [name for name in names if "." in name and _is_step(name.split(".")[0])]


def _entries(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_step(name: str) -> bool:
    """Return whether a step's folder can have this name: `0099` or other digits than 0 to 9 are somebody else's."""
    return name.isdecimal() and str(int(name)) == name
