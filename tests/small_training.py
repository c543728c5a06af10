"""A tiny run, batches that count unequally, optimizers, and distances between trees, for tests of training."""

import jax
import numpy as np
import optax

RATE = 1e-2
# Every test that trains just this shares its compiled programs.
TINY = {
    "model.context_length": 8,
    "model.width": 8,
    "model.layers": 1,
    "model.heads": 2,
    "train.steps": 6,
    "train.batch_size": 4,
    "train.eval_every": 3,
    "train.eval_batches": 2,
    "train.save_every": 2,
    "train.log_every": 1,
    "train.sample_tokens": 0,
    "optimizer.warmup_steps": 2,
}
TEXT = "the quick brown fox jumps over the lazy dog; " * 20


def unequal_batch(config, rows, seed):
    """Rows that count all, some or few of their tokens."""
    rng = np.random.default_rng(seed)
    ids_BT = rng.integers(0, config.vocab_size, (rows, config.context_length + 1), np.int32)
    weights_BT = (rng.random((rows, config.context_length)) < np.linspace(1, 0.2, rows)[:, None]).astype(np.float32)
    return {"token_ids_BT": ids_BT[:, :-1], "target_ids_BT": ids_BT[:, 1:], "weights_BT": weights_BT}


def adamw(epsilon):
    """Epsilon is part of the state, so that one compiled program serves every value."""
    return optax.inject_hyperparams(optax.adamw)(RATE, eps=epsilon)


def largest(tree):
    return max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(tree))


def largest_difference(tree, other):
    return largest(jax.tree.map(lambda a, b: np.asarray(a) - np.asarray(b), tree, other))
