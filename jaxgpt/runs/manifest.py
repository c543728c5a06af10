"""`Manifest`: the file that says what a run directory holds, so that the weights are never read as another model."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from types import NoneType
from typing import Any, Self

from jaxgpt.config import RequestError, RunConfig, blamed_on, from_nested
from jaxgpt.data.tokenizer import tokenizer_from_json

from .files import write_atomically
from .versions import library_versions

FORMAT = 3
FILE_NAME = "manifest.json"
_FIELDS: dict[str, tuple[type, ...]] = {
    "config": (dict,),
    "data": (dict,),
    "tokenizer": (dict, NoneType),
    "versions": (dict,),
    "devices": (dict,),
    "command": (str, NoneType),
    "model_hash": (str,),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a run directory says about itself.

    Attributes:
        config: the whole config; `model.vocab_size` is a number, not `none`.
        data: identity of the data (name, size, hash, as the data layer gives it); empty where there is none.
        tokenizer: the tokenizer's `to_json()`, or None for a model saved without one.
        versions: `library_versions()` of the process that trained last.
        devices: what that process trained on, as `jaxgpt.sharding.mesh.topology` gives it; empty where nothing
            was trained.
        command: the command line that started the run, or None when it was started from Python.

    Raises:
        RequestError: no vocabulary size, or a tokenizer with more ids than that.

    Example:
        >>> from jaxgpt.config import ModelConfig
        >>> Manifest(config=RunConfig(model=ModelConfig(vocab_size=65))).config.model.vocab_size
        65
    """

    config: RunConfig
    data: dict[str, Any] = dataclasses.field(default_factory=dict)
    tokenizer: dict[str, Any] | None = None
    versions: dict[str, str] = dataclasses.field(default_factory=library_versions)
    devices: dict[str, Any] = dataclasses.field(default_factory=dict)
    command: str | None = None

    def __post_init__(self) -> None:
        vocab_size = self.config.model.vocab_size
        if vocab_size is None:
            raise RequestError("model.vocab_size is none; a saved model needs the number, set model.vocab_size")
        if self.tokenizer is not None:
            check_vocabulary(vocab_size, tokenizer_from_json(self.tokenizer).vocab_size)

    @property
    def model_hash(self) -> str:
        """sha256 (hex) of the architecture and the tokenizer."""
        return _model_hash(dataclasses.asdict(self.config.model), self.tokenizer)

    def write(self, run_dir: Path) -> None:
        """Write `manifest.json` into the folder `run_dir`, atomically.

        Raises:
            WorkError: the folder cannot be written; an earlier manifest is then unchanged.
        """
        document = {
            "format": FORMAT,
            "config": dataclasses.asdict(self.config),
            "data": self.data,
            "versions": self.versions,
            "devices": self.devices,
            "command": self.command,
            "model_hash": self.model_hash,
            "tokenizer": self.tokenizer,  # last: the merges of a BPE are half a megabyte, the rest fits a screen
        }
        write_atomically(run_dir / FILE_NAME, json.dumps(document, indent=2, allow_nan=False) + "\n")

    @classmethod
    def read(cls, run_dir: Path) -> Self:
        """Read and check the manifest of the run directory `run_dir`.

        Raises:
            RequestError: no manifest, not whole JSON, another format, an unknown or ill-typed field, an
                architecture or tokenizer edited since it was written, or a tokenizer with more ids than the model.
        """
        path = run_dir / FILE_NAME
        fields = _checked_fields(_parse(path), path)
        config = from_nested(fields["config"], str(path))
        if _model_hash(fields["config"].get("model"), fields["tokenizer"]) != fields.pop("model_hash"):
            raise RequestError(
                f"{path}: the model section or the tokenizer was edited after the weights were saved; "
                "they only fit what was written: undo the edit, or start a new run with the other model"
            )
        with blamed_on(str(path)):
            return cls(**fields | {"config": config})


def check_vocabulary(vocab_size: int, tokenizer_size: int) -> None:
    """Refuse a tokenizer with more ids than the model; it may have fewer, since many pad their tables."""
    if tokenizer_size > vocab_size:
        raise RequestError(
            f"the tokenizer has {tokenizer_size} ids, the model only {vocab_size}; use the one that the "
            "model was trained with"
        )


def _model_hash(model: Any, tokenizer: Any) -> str:
    text = json.dumps({"model": model, "tokenizer": tokenizer}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _parse(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RequestError(
            f"cannot read {path}: {error.strerror}; a run directory has this file, check the path"
        ) from None
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError
        raise RequestError(
            f"{path} is not whole JSON ({error}); it was written in one piece, so it was damaged later: "
            "put a good copy back"
        ) from None


def _checked_fields(document: Any, path: Path) -> dict[str, Any]:
    """Return the fields beside the format version, each of its type."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        got = document.get("format") if isinstance(document, dict) else type(document).__name__
        raise RequestError(
            f"{path}: expected a manifest of format {FORMAT}, got format {got!r}; "
            "read it with the jaxgpt version that wrote it"
        )
    fields = {name: value for name, value in document.items() if name != "format"}
    if fields.keys() != _FIELDS.keys():
        wrong = ", ".join(sorted(fields.keys() ^ _FIELDS.keys()))
        raise RequestError(f"{path}: expected the fields {', '.join(_FIELDS)}; missing or unknown: {wrong}")
    for name, types in _FIELDS.items():
        if not isinstance(fields[name], types):
            words = " or ".join("null" if kind is NoneType else kind.__name__ for kind in types)
            raise RequestError(f"{path}: '{name}' should be {words}, got {type(fields[name]).__name__}")
    return fields
