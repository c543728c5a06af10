"""Refuse a wrong result: every program is compared with float64 NumPy before it is timed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .exact import exact_block, exact_ffn, exact_head
from .workload import Case, Subject, Workload

# Pairs of query and key that float64 is given time for, all heads together; beyond it a sample of heads is checked.
_PAIRS = 1 << 27

# Along one random direction an error may hide, or a right bfloat16 gradient look wrong, by chance; along four hardly.
_DIRECTIONS = 4

Errors = dict[str, float]  # of each output: the largest difference over the largest reference value


@dataclasses.dataclass(frozen=True)
class Check:
    """What results are held against.

    Attributes:
        errors: (out, gradients or None) -> how far each lies off.
        tolerance: How far it may.
        scope: What is compared, and to what tolerance.
    """

    errors: Callable[[Any, Any], Errors]
    tolerance: float
    scope: str

    def refusal(self, out: Any, gradients: Any) -> str | None:
        """Return why a result is wrong; None where it is right."""
        off = {name: error for name, error in self.errors(out, gradients).items() if not error <= self.tolerance}
        if not off:
            return None
        named = ", ".join(f"{name} off by {error:.1e}" for name, error in off.items())
        return f"wrong result: {named} of its largest value, at most {self.tolerance:.1e} is allowed"


def make_check(workload: Workload, subject: Subject, case: Case) -> Check:
    """Compute the reference of a case, once for all programs."""
    return _attention_check(workload, case) if subject == "attention" else _block_check(workload, subject, case)


def tolerance(workload: Workload, largest_score: float) -> float:
    """Return how far a result may lie off, relative to the largest reference value.

    float32 is 1e-5, more where scores are above 100, since they are rounded relative to their size; on accelerators
    its matmuls round like bfloat16's unless `jax_default_matmul_precision` says otherwise.
    """
    coarse = jax.default_backend() != "cpu" and jax.config.jax_default_matmul_precision not in ("highest", "float32")
    return (1e-2 if coarse or workload.dtype == "bfloat16" else 1e-5) * max(1.0, largest_score / 100)


def _float64(tree: Any) -> Any:
    return jax.tree.map(lambda array: np.asarray(array).astype(np.float64), tree)


def _error(got: np.ndarray, expected: np.ndarray) -> float:
    """NaN anywhere gives NaN, which no tolerance allows."""
    return float(np.abs(got - expected).max() / max(np.abs(expected).max(), 1e-30))


def _sampled_heads(workload: Workload) -> list[tuple[int, int]]:
    """Return the (row, key head) pairs that are checked: all, or as many as `_PAIRS` has room for, at least one."""
    heads = [(b, k) for b in range(workload.B) for k in range(workload.K)]
    each = workload.pairs(full=False) * (workload.H // workload.K)
    count = min(len(heads), max(1, _PAIRS // each))
    chosen = np.random.default_rng([workload.seed, 7]).choice(len(heads), count, replace=False)
    return [heads[n] for n in np.sort(chosen)]


def _attention_check(workload: Workload, case: Case) -> Check:
    sample, G = _sampled_heads(workload), workload.H // workload.K
    by_query = [(b, np.s_[:, k * G : (k + 1) * G]) for b, k in sample]
    by_key = [(b, np.s_[:, k]) for b, k in sample]

    def picked(array: Any, places: list) -> list[np.ndarray]:
        array = np.asarray(array)
        return [array[b][at].astype(np.float64) for b, at in places]

    q, k, v = case.arguments
    parts = zip(picked(q, by_query), picked(k, by_key), picked(v, by_key), picked(case.d_out, by_query), strict=True)
    heads = [
        exact_head(q_TGD.swapaxes(0, 1), k_SD, v_SD, d_TGD.swapaxes(0, 1), causal=workload.is_causal)
        for q_TGD, k_SD, v_SD, d_TGD in parts
    ]
    expected = {
        "out": (by_query, [head.out_GTD.swapaxes(0, 1) for head in heads]),
        "dq": (by_query, [head.d_q_GTD.swapaxes(0, 1) for head in heads]),
        "dk": (by_key, [head.d_k_SD for head in heads]),
        "dv": (by_key, [head.d_v_SD for head in heads]),
    }

    def errors(out: Any, gradients: Any) -> Errors:
        got = {"out": out} | ({} if gradients is None else dict(zip(("dq", "dk", "dv"), gradients, strict=True)))
        return {
            name: _error(np.stack(picked(array, expected[name][0])), np.stack(expected[name][1]))
            for name, array in got.items()
        }

    allowed = tolerance(workload, max(head.largest_score for head in heads))
    heads_checked = f"{len(sample)} of {workload.B * workload.K} key heads"
    return Check(errors, allowed, f"value and gradients of {heads_checked}, every position, to {allowed:.0e}")


def _block_check(workload: Workload, subject: Subject, case: Case) -> Check:
    """Values are compared one by one, gradients by what they say about a few steps in random directions.

    Central differences in float64 tell what each step does. In a random direction an error of one argument's gradient
    shows by its share of that gradient's norm, whichever numbers it lies in.
    """
    arguments, d_out_BNC = _float64(case.arguments), _float64(case.d_out)[:, case.rows_T]

    def exact(x_BTC, params):
        if subject == "ffn":
            return exact_ffn(x_BTC[:, case.rows_T], params)
        return exact_block(x_BTC, params, case.rows_T, causal=workload.is_causal)

    expected_BNC = exact(*arguments)

    def errors(out: Any, gradients: Any) -> Errors:
        found = {"out": _error(_float64(out)[:, case.rows_T], expected_BNC)}
        if gradients is None:
            return found
        gradients = _float64(gradients)
        off = np.sqrt(np.mean([off_along(seed, gradients) ** 2 for seed in range(_DIRECTIONS)]))
        return found | {"gradient": float(off / math.sqrt(len(jax.tree.leaves(gradients))))}

    def off_along(seed: int, gradients: Any) -> float:
        direction = _direction(seed, gradients)
        up, down = (
            exact(*jax.tree.map(lambda a, u, step=step: a + step * u, arguments, direction)) for step in (1e-5, -1e-5)
        )
        by_difference = float((d_out_BNC * (up - down)).sum() / 2e-5)
        products = [float((g * u).sum()) for g, u in zip(*map(jax.tree.leaves, (gradients, direction)), strict=True)]
        return sum(products) - by_difference

    allowed, rows = tolerance(workload, 0.0), f"{len(case.rows_T)} of {workload.T} positions"
    ways = f"{_DIRECTIONS} random directions"
    return Check(errors, allowed, f"value at {rows}, all gradients along {ways}, to {allowed:.0e}")


def _direction(seed: int, gradients: Any) -> Any:
    """Return a random step to each argument; of the gradient only the norms are used, so that all count alike."""
    rng = np.random.default_rng([seed, 8])
    least = 1e-3 * max(np.linalg.norm(leaf) for leaf in jax.tree.leaves(gradients))
    return jax.tree.map(lambda leaf: rng.standard_normal(leaf.shape) / max(np.linalg.norm(leaf), least), gradients)
