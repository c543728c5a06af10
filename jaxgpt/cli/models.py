"""What the commands that read a model share: the tokenizer that a command line names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jaxgpt.config import ModelConfig, RequestError, blamed_on

if TYPE_CHECKING:
    from jaxgpt.data.tokenizer import Tokenizer

TOKENIZER_HELP = "the tokenizer's file or folder, for a model that comes without one (default: the model's)"


def tokenizer_for(config: ModelConfig, own: Tokenizer | None, named: str | None) -> Tokenizer | None:
    """Return the tokenizer that a command uses: the model's own, or the one named for a model without.

    Args:
        config: The model.
        own: The tokenizer that it came with, None where it came without.
        named: The path that the command line names, None where it names none.

    Raises:
        RequestError: nothing lies at the path, or a tokenizer whose ids mean something else than the model's own,
            or that has more ids than the model.
    """
    if named is None:
        return own
    from jaxgpt.data.tokenizer import tokenizer_from_path
    from jaxgpt.runs.manifest import check_vocabulary

    if not Path(named).exists():
        raise RequestError(f"--tokenizer: {named} does not exist; check the path")
    found = tokenizer_from_path(Path(named))
    if found is None:
        raise RequestError(f"--tokenizer: {named} holds no tokenizer; name its file")
    if own is not None and own.fingerprint() != found.fingerprint():
        raise RequestError(
            f"--tokenizer: the ids of {named} mean something else than those of the tokenizer that the model has; "
            "leave --tokenizer out"
        )
    with blamed_on("--tokenizer"):
        check_vocabulary(config.vocab_size, found.vocab_size)
    return found
