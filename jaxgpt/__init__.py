"""jaxgpt: a GPT in JAX and Flax Linen that one can check by hand and run at the speed of the hardware.

The public names below are loaded when they are first used, so that importing jaxgpt imports no jax.
"""

import sys
from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "ExecutionConfig": "jaxgpt.config",
    "ModelConfig": "jaxgpt.config",
    "RequestError": "jaxgpt.config",
    "RunConfig": "jaxgpt.config",
    "WorkError": "jaxgpt.config",
    "Transformer": "jaxgpt.model.modules",
    "apply": "jaxgpt.model.functional",
    "attention": "jaxgpt.ops.attention",
    "count_parameters": "jaxgpt.model.buckets",
    "explain_attention": "jaxgpt.ops.attention",
    "fill": "jaxgpt.generation.fill",
    "generate": "jaxgpt.generation.generate",
    "GenerationRequest": "jaxgpt.generation.requests",
    "GenerationStream": "jaxgpt.generation.generate",
    "Sampling": "jaxgpt.generation.sampling",
    "init": "jaxgpt.model.parameters",
    "load": "jaxgpt.interop.opening",
    "make_cache": "jaxgpt.model.cache",
    "prepare": "jaxgpt.model.serving",
    "PromptLookup": "jaxgpt.generation.lookup",
    "loss": "jaxgpt.model.functional",
    "masks": "jaxgpt.ops.attention",
    "save": "jaxgpt.runs.saved",
    "train": "jaxgpt.training.run",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'jaxgpt' has no attribute '{name}'; it has {', '.join(__all__)}")
    if name.endswith("Config") and "jax" in sys.modules:
        import_module("jaxgpt.ops")  # where the configs are registered as static arguments of compiled functions
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
