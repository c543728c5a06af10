"""A run's data and what becomes of it: tokenizer, examples, and the parameters that fine-tuning starts from."""

from __future__ import annotations

import dataclasses
import os

from jaxgpt.config import ModelConfig, RequestError, RunConfig, blamed_on
from jaxgpt.data.objectives import OBJECTIVES, Objective, Splits
from jaxgpt.data.source import Say
from jaxgpt.data.sources import Sources
from jaxgpt.data.tokenizer import Tokenizer, choose_tokenizer, tokenizer_from_json
from jaxgpt.interop.opening import open_model
from jaxgpt.model.parameters import Params
from jaxgpt.runs.directory import RunDirectory
from jaxgpt.runs.manifest import check_vocabulary
from jaxgpt.runs.saved import Warn
from jaxgpt.runs.step_folders import saved_steps

from .estimates import check_estimates


def _say_nothing(line: str) -> None:
    """Leave a line unsaid."""


@dataclasses.dataclass(frozen=True)
class Material:
    """A run's data and what became of it.

    Attributes:
        config: The run's config, its vocabulary size filled in from the tokenizer, its paths absolute.
        sources: The texts or files of ids, checked, and their identity.
        tokenizer: Their tokenizer.
        splits: The examples to train on and to validate on.
        start: Parameters to start from (`train.init_from`), or None for fresh ones.
    """

    config: RunConfig
    sources: Sources
    tokenizer: Tokenizer
    splits: Splits
    start: Params | None


def gather_material(
    config: RunConfig, existing: RunDirectory | None, warn: Warn, say: Say = _say_nothing
) -> Material:
    """Open the data, make or take over the tokenizer, check, encode and split.

    Args:
        config: What the run asks for.
        existing: The run that is being continued, or None for a new run.
        warn: Called with one message for each damaged checkpoint of `train.init_from`.
        say: Called with a line each few seconds that a check of large files takes.

    Raises:
        RequestError: data or vocabulary that does not fit; nothing has been written yet.
        WorkError: `train.init_from` has no usable checkpoint.
    """
    objective, named, owner, trained, start = OBJECTIVES[config.model.family], config.data.tokenizer, None, None, None
    sources = Sources.open(config.data, objective.built_in)
    if config.train.init_from is not None and not _has_begun(existing):
        owner = config.train.init_from
        model, start, trained = _load_source(owner, config.model, warn)
        config = dataclasses.replace(config, model=config.model.replace(vocab_size=model.vocab_size))
    if existing is not None:
        owner, trained = "this run", tokenizer_from_json(existing.manifest.tokenizer)
        config = dataclasses.replace(
            config, model=config.model.replace(vocab_size=existing.manifest.config.model.vocab_size)
        )
        named = None if named == existing.manifest.config.data.tokenizer else named  # its file may be gone by now
    tokenizer = _choose(objective, sources, named, trained, owner)
    sources = sources.checked(tokenizer, objective.roles, say)
    if existing is not None:
        sources.check_same(existing.manifest.data)
    config = with_absolute_paths(with_vocabulary(config, tokenizer, owner))
    splits = objective.split(config, sources, tokenizer)
    check_estimates(config, splits)
    return Material(config, sources, tokenizer, splits, start)


def _choose(
    objective: Objective, sources: Sources, named: str | None, trained: Tokenizer | None, owner: str | None
) -> Tokenizer:
    """Return the tokenizer: that of the parameters, else that of the data, else the one named."""
    own = sources.own_tokenizer(objective.roles)
    if trained is None and owner is None and own is not None:
        trained, owner = own, next(source.source for source in sources.all if source.tokenizer is not None)
    text = sources.text if trained is None or named is not None else None
    text = None if text is None else objective.words(text)
    return choose_tokenizer(named, text, roles=objective.roles, trained=trained, owner=owner)


def with_vocabulary(config: RunConfig, tokenizer: Tokenizer, owner: str | None) -> RunConfig:
    """Return the config with `model.vocab_size`: that of the parameters' owner, for fresh ones the tokenizer's."""
    given, size = config.model.vocab_size, tokenizer.vocab_size
    if owner is not None:
        with blamed_on(owner):
            check_vocabulary(given, size)
        return config
    if given not in (None, size):
        raise RequestError(
            f"model.vocab_size is {given}, but the tokenizer has {size} ids; a new model has as many ids as its "
            "tokenizer: --model.vocab_size none takes the size from the tokenizer (a preset such as gpt2 fixes the "
            "vocabulary of that model)"
        )
    return dataclasses.replace(config, model=config.model.replace(vocab_size=size))


def with_absolute_paths(config: RunConfig) -> RunConfig:
    """Return the config with its paths absolute, so that a run continues from any folder."""
    data, train = config.data, config.train
    return dataclasses.replace(
        config,
        data=data.replace(path=_absolute(data.path), validation_path=_absolute(data.validation_path)),
        train=train.replace(init_from=_absolute(train.init_from)),
    )


def _absolute(path: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
    if isinstance(path, tuple):
        return tuple(os.path.abspath(one) for one in path)
    return path and os.path.abspath(path)


def _has_begun(run: RunDirectory | None) -> bool:
    return run is not None and bool(saved_steps(run.checkpoints_path))


def _load_source(path: str, wanted: ModelConfig, warn: Warn) -> tuple[ModelConfig, Params, Tokenizer | None]:
    """Return the model and the tokenizer that fine-tuning starts from."""
    with blamed_on("train.init_from"):
        opened = open_model(path, warn)
    _check_same_model(wanted, opened.config, path)
    return opened.config, opened.params, opened.tokenizer


def _check_same_model(wanted: ModelConfig, found: ModelConfig, source: str) -> None:
    """Fine-tuning may change the dropout probabilities, nothing else of the architecture."""
    for name in wanted.field_names():
        ours, theirs = getattr(wanted, name), getattr(found, name)
        if ours != theirs and not name.endswith("_dropout") and not (name == "vocab_size" and ours is None):
            raise RequestError(
                f"train.init_from {source} has model.{name} = {theirs}, this run asks for {ours}; "
                f"set model.{name} to {theirs}, or start from another run"
            )
