"""Frozen, strict, documented options; nothing here imports jax."""

from .compose import apply_settings, compose, differing, flatten, from_nested, read_toml
from .data import DataConfig
from .doubts import doubts
from .errors import JaxgptError, RequestError, WorkError, blamed_on, nearest, some, warn
from .model import ModelConfig
from .presets import load_preset, preset_names, preset_settings
from .run import AttentionName, ExecutionConfig, MeshConfig, OptimizerConfig, RunConfig, TrainConfig

__all__ = [
    "AttentionName",
    "DataConfig",
    "ExecutionConfig",
    "JaxgptError",
    "MeshConfig",
    "ModelConfig",
    "OptimizerConfig",
    "RequestError",
    "RunConfig",
    "TrainConfig",
    "WorkError",
    "apply_settings",
    "blamed_on",
    "compose",
    "differing",
    "doubts",
    "flatten",
    "from_nested",
    "load_preset",
    "nearest",
    "preset_names",
    "preset_settings",
    "read_toml",
    "some",
    "warn",
]
