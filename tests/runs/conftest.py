"""What the tests of run directories share: a small model, and a tree like a training state."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxgpt.config import ModelConfig, RunConfig
from jaxgpt.data.tokenizer import CharacterTokenizer
from jaxgpt.runs.manifest import Manifest


@pytest.fixture(scope="session")
def tokenizer():
    return CharacterTokenizer.train("hello world")


@pytest.fixture(scope="session")
def config(tokenizer):
    return ModelConfig(vocab_size=tokenizer.vocab_size, context_length=8, width=8, layers=1, heads=2)


@pytest.fixture(scope="session")
def manifest(config, tokenizer):
    return Manifest(
        config=RunConfig(model=config),
        data={"name": "hello", "sha256": "00"},
        tokenizer=tokenizer.to_json(),
        command="jaxgpt train",
    )


@pytest.fixture(scope="session")
def state():
    """Return a function of a step: items with every dtype and container a training state has."""

    def at(step):
        key = jax.random.key(step)
        params = {
            "token_embedding": jax.random.normal(key, (40, 30)),
            "blocks_0": {"scale": jnp.full(30, step, jnp.bfloat16)},
        }
        moments = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3)).init(params)
        return {
            "params": params,
            "optimizer": jax.tree.map(lambda x: (x + step).astype(x.dtype), moments),
            "key": jax.random.key_data(key),
            "counters": {"step": np.int32(step), "seen": np.array([step, -0.0, np.nan], np.float64)},
        }

    return at


@pytest.fixture(scope="session")
def same():
    """Return a function that says whether two trees agree in structure, dtypes, shapes and every bit."""

    def bits(x):
        return str(x.dtype), x.shape, np.asarray(x).tobytes()

    def agree(a, b):
        one, other = jax.tree.structure(a), jax.tree.structure(b)
        return one == other and list(map(bits, jax.tree.leaves(a))) == list(map(bits, jax.tree.leaves(b)))

    return agree
