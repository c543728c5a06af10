"""`load`: a model from wherever it lies, be it a run directory, a Hugging Face folder or a llama2.c file."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jaxgpt.config import ExecutionConfig, ModelConfig, RequestError, blamed_on, some
from jaxgpt.data.pickles import is_pickle
from jaxgpt.data.tokenizer import Tokenizer, tokenizer_from_json
from jaxgpt.model.buckets import count_parameters
from jaxgpt.model.parameters import Params
from jaxgpt.runs.checkpoints import Choice
from jaxgpt.runs.directory import RunDirectory, is_run
from jaxgpt.runs.manifest import check_vocabulary
from jaxgpt.runs.saved import load_run

from .architectures import Warn
from .hugging_face import CONFIG_NAME, read_folder, read_folder_config
from .llama2c import read_file, read_file_config
from .tensors import refuse_pickle
from .text import read_tokenizer

EXPECTED = "a run directory, a Hugging Face folder or a llama2.c file"


class Opened(NamedTuple):
    """A model and where it came from.

    Attributes:
        config, params, tokenizer: The model; the tokenizer is None where there is none.
        execution: How its run computes, on whatever platform; the defaults for the files of others.
        step: The run's step; 0 for the files of others.
        source: What was read, in words.
    """

    config: ModelConfig
    params: Params
    tokenizer: Tokenizer | None
    execution: ExecutionConfig
    step: int
    source: str

    def words(self, tokenizer: Tokenizer | None) -> str:
        """Return in words what was read, with the tokenizer that is used for it."""
        count = count_parameters(self.config).total
        text = "no tokenizer" if tokenizer is None else f"tokenizer with {tokenizer.vocab_size:,} ids"
        return f"{self.source}, {count:,} parameters, {text}"


def load(
    path: str | Path, *, checkpoint: Choice = "last", warn: Warn = warnings.warn
) -> tuple[ModelConfig, Params, Tokenizer | None]:
    """Return `(config, params, tokenizer)` of the model at `path`.

    Of a run it is the newest usable checkpoint, unless `checkpoint` names another. The parameters are JAX arrays in a
    nested dict, float32; the tokenizer is None where there is none.

    Args:
        path: A run directory, of a training run or written by `save`; a folder of Hugging Face transformers (GPT-2,
            Llama, Mistral, Qwen2, Qwen3, in safetensors); or a llama2.c checkpoint.
        checkpoint: Which one of a run: "last"; "best", the one of the lowest validation loss; or that of a step.
        warn: Called with one message for each thing that is skipped: damaged checkpoints, unknown fields.

    Raises:
        RequestError: nothing that can be read lies at `path`, the message says what lies there and what is amiss; or
            no such checkpoint.
        WorkError: no checkpoint of a run passes its check.

    Example:
        >>> import tempfile
        >>> config = ModelConfig.preset("minigpt")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     jaxgpt.save(f"{folder}/mini", config, jaxgpt.init(config, key=jax.random.key(0)))
        ...     same_config, params, tokenizer = load(f"{folder}/mini")
        >>> same_config == config, params["token_embedding"].dtype, tokenizer
        (True, dtype('float32'), None)
    """
    opened = open_model(path, warn, checkpoint=checkpoint)
    return opened.config, opened.params, opened.tokenizer


def open_model(path: str | Path, warn: Warn, *, checkpoint: Choice = "last") -> Opened:
    """Return the model at `path`, as `load` does, with what a command wants to say about it."""
    path = Path(path)
    if is_run(path):
        config, params, tokenizer, step = load_run(path, warn, checkpoint=checkpoint)
        return Opened(
            config.model,
            params,
            tokenizer,
            config.execution.replace(platform="auto"),
            step,
            f"run directory, step {step}",
        )
    if checkpoint != "last":
        raise RequestError(f"{path} is no run directory and has no checkpoint {checkpoint} to choose; leave it out")
    with _readable(path):
        place = _place(path)
        reading = read_folder(place, warn) if place.is_dir() else read_file(place)
    if reading.tokenizer is not None:
        with blamed_on(str(path)):
            check_vocabulary(reading.config.vocab_size, reading.tokenizer.vocab_size)
    return Opened(reading.config, reading.params, reading.tokenizer, ExecutionConfig(), 0, reading.source)


def open_config(path: str | Path, warn: Warn) -> ModelConfig:
    """Return the architecture of the model at `path`, without reading its parameters."""
    path = Path(path)
    if is_run(path):
        return RunDirectory.open(path).manifest.config.model
    with _readable(path):
        place = _place(path)
        return read_folder_config(place, warn) if place.is_dir() else read_file_config(place)


def open_tokenizer(path: str | Path, warn: Warn) -> Tokenizer | None:
    """Return the tokenizer of the model at `path`, None where there is none, without reading its parameters."""
    path = Path(path)
    if is_run(path):
        record = RunDirectory.open(path).manifest.tokenizer
        return record and tokenizer_from_json(record)
    with _readable(path):
        place = _place(path)
        return read_tokenizer(place, warn) if place.is_dir() else None


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RequestError(f"cannot read {error.filename or path}: {error.strerror}; check its permissions") from None


def _place(path: Path) -> Path:
    """Return the Hugging Face folder or the llama2.c file that `path` means.

    Raises:
        RequestError: it is neither, nor a folder with one llama2.c file.
    """
    if not path.exists():
        raise RequestError(f"{path} does not exist; expected {EXPECTED}, check the path")
    if path.is_dir():
        return path if (path / CONFIG_NAME).exists() else _only_file(path)
    if path.suffix == ".safetensors":
        raise RequestError(f"{path} has no architecture in it; name its folder, with the {CONFIG_NAME} beside it")
    if is_pickle(path):
        raise refuse_pickle(str(path))
    if path.suffix != ".bin":
        raise RequestError(f"{path} is a file; expected {EXPECTED} (.bin), check the path")
    return path


def _only_file(folder: Path) -> Path:
    """Return the one llama2.c file of a folder without config.json: the one whose length fits its header."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    fitting = [path for path in files if path.suffix == ".bin" and not is_pickle(path) and _fits(path)]
    if len(fitting) == 1:
        return fitting[0]
    pickles = [path for path in files if is_pickle(path)]
    if pickles and not fitting:
        raise refuse_pickle(str(pickles[0]))
    held = sorted(entry.name for entry in folder.iterdir())
    several = (
        f", and {len(fitting)} llama2.c files: name one of them" if fitting else ": name a folder with one of both"
    )
    raise RequestError(
        f"{folder} is no run directory and no Hugging Face folder: it has no manifest.json and no {CONFIG_NAME}, it "
        f"holds {some(held)}{several}"
    )


def _fits(path: Path) -> bool:
    try:
        read_file_config(path)
    except RequestError:
        return False
    return True
