"""`save` and `load_run`: parameters as a run directory that describes itself, and back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxgpt.config import ModelConfig, RequestError, RunConfig
from jaxgpt.data.tokenizer import tokenizer_from_json
from jaxgpt.model.parameters import Params, abstract_parameters

from .checkpoints import CheckpointStore, Choice
from .directory import RunDirectory
from .manifest import Manifest
from .trees import differences, named_leaves, signatures

Warn = Callable[[str], Any]


def save(path: str | Path, config: ModelConfig, params: Params, tokenizer: Any = None) -> None:
    """Save `params` at `path` as a run directory with one checkpoint, of step 0.

    Args:
        path: a folder that does not exist yet, or is empty.
        config: the architecture; its vocab_size is set.
        params: the nested dict of float32 arrays that `config` describes.
        tokenizer: what turned text into ids, saved with the model; None saves none.

    Raises:
        RequestError: `path` holds something, the tree is not the architecture's (the first missing, surplus
            and misshapen paths are named), or the tokenizer has more ids than the model.
        WorkError: the disk refused.

    Example:
        >>> import tempfile
        >>> import jax
        >>> from jaxgpt.model.parameters import init
        >>> config = ModelConfig.preset("minigpt")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(f"{folder}/mini", config, init(config, key=jax.random.key(0)))
        ...     same, params, tokenizer, step = load_run(f"{folder}/mini", print)
        >>> same.model == config, params["token_embedding"].dtype, tokenizer, step
        (True, dtype('float32'), None, 0)
    """
    manifest = Manifest(config=RunConfig(model=config), tokenizer=None if tokenizer is None else tokenizer.to_json())
    wrong = differences(signatures(named_leaves(params)), signatures(named_leaves(abstract_parameters(config))))
    if wrong:
        raise RequestError(f"the parameters are not those of the architecture: {wrong}; change one of the two")
    run = RunDirectory.create(Path(path), manifest)
    with CheckpointStore(run.checkpoints_path) as store:
        store.save(0, {"params": params})


def load_run(path: str | Path, warn: Warn, *, checkpoint: Choice = "last") -> tuple[RunConfig, Params, Any, int]:
    """Return `(config, params, tokenizer, step)` of the newest usable checkpoint at `path`, or of another.

    The parameters are JAX arrays in a nested dict, float32; the tokenizer is None where none was saved.

    Args:
        path: a run directory, of a training run or written by `save`.
        warn: called with one message for each damaged checkpoint that is skipped; nothing is moved.
        checkpoint: "last"; "best", the one of the lowest validation loss; or a step.

    Raises:
        RequestError: no run directory, a manifest that is refused, or a checkpoint that is not there.
        WorkError: no checkpoint passes its check.
    """
    run = RunDirectory.open(Path(path))
    with CheckpointStore(run.checkpoints_path, writable=False) as store:
        template = {"params": abstract_parameters(run.manifest.config.model)}
        restored = store.restore(template, warn=warn, choice=checkpoint)
    tokenizer = run.manifest.tokenizer and tokenizer_from_json(run.manifest.tokenizer)
    return run.manifest.config, restored.items["params"], tokenizer, restored.step
