"""Pure functions over arrays: no Flax, no state, no clock.

Importing this folder registers the config classes as static, so that they pass through `jax.jit` as arguments.
"""

import jax

from jaxgpt.config import ExecutionConfig, ModelConfig, RunConfig

for _config_class in (ModelConfig, ExecutionConfig, RunConfig):
    jax.tree_util.register_static(_config_class)
