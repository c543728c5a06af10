"""transformers beside JAX: its own `generate`, with its cache, on the same weights."""

from __future__ import annotations

import importlib.util
import tempfile
import time
from pathlib import Path
from typing import Any

from jaxgpt.config import RequestError

from .programs import Choices, Program, Timed, choices_of
from .workload import Model, Workload


def check_peers() -> None:
    """Refuse to compare with what is not installed.

    Raises:
        RequestError: PyTorch or transformers is missing.
    """
    missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        raise RequestError(f"--peers needs {' and '.join(missing)}: pip install 'jaxgpt[peers]', or leave it out")


def opened_by_transformers(model: Model) -> Any:
    """Return the model as transformers opens the folder that `jaxgpt export` writes.

    Raises:
        RequestError: no layout of transformers holds the architecture.
    """
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig
    from transformers.utils import logging

    from jaxgpt.interop.hugging_face import export

    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        export(path, model.config, model.params, None, warn=lambda message: None)
        opened = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    opened.generation_config = GenerationConfig(pad_token_id=0)  # no id ends a row
    return opened


class _Clock:
    """Hears of each token that `generate` has: of the prompt first, then step by step."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, ids: Any) -> None:
        self.times.append(time.perf_counter())

    def end(self) -> None:
        pass


def transformers_program(opened: Any, workload: Workload) -> Program:
    """Return transformers' greedy `generate`, timed by what it tells a streamer."""
    import torch

    ids = torch.tensor(workload.prompts())
    how = {
        "attention_mask": torch.ones_like(ids),
        "max_new_tokens": workload.N,
        "do_sample": False,
        "use_cache": True,
    }

    def call() -> Timed:
        clock, start = _Clock(), time.perf_counter()
        with torch.inference_mode():
            made = opened.generate(ids, streamer=clock, **how)
        _, first, *_, last = clock.times
        return Timed(first - start, (last - first) / workload.steps, choices_of(workload, made.numpy()))

    def with_nats() -> Choices:
        with torch.inference_mode():
            made = opened.generate(ids, return_dict_in_generate=True, output_logits=True, **how)
        nats_BNV = torch.stack(made.logits, dim=1).log_softmax(-1)
        chosen = made.sequences[:, workload.P :, None]
        return choices_of(workload, made.sequences.numpy(), nats_BNV.gather(2, chosen)[..., 0].numpy())

    return Program(call, with_nats)


def threads() -> int:
    """Return how many threads PyTorch runs on."""
    import torch

    return torch.get_num_threads()
