"""The one table of attention's cases, each with its exact answer in float64 and with the kernels that refuse it.

What is exact shares no code with jaxgpt's masks.
"""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import reference_numpy

from jaxgpt import masks
from jaxgpt.ops.attention import KERNELS, attention


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """One call of attention.

    Attributes:
        B, T, S, H, K, D: Rows, queries, keys, query heads, key heads, head size.
        causal, window, real, lengths, segments, offset: What is seen; `segments` are the queries' and the keys'.
        scale, soft_cap, dropout: As attention takes them.
        seed: Of the dropout's key.
        factor: Of the queries; 1000 gives scores of thousands.
    """

    B: int = 2
    T: int = 8
    S: int = 8
    H: int = 4
    K: int = 2
    D: int = 8
    causal: bool = True
    window: int | None = None
    real: np.ndarray | None = None
    lengths: np.ndarray | None = None
    segments: tuple[np.ndarray, np.ndarray] | None = None
    offset: int | np.ndarray | None = None
    scale: float | None = None
    soft_cap: float | None = None
    dropout: float = 0.0
    seed: int = 7
    factor: float = 1.0

    @property
    def mask(self):
        """The mask as a user would write it."""
        mask = masks.causal() if self.causal else masks.full()
        if self.real is not None:
            mask = mask & masks.padding(self.real)
        return mask if self.segments is None else mask & masks.segments(*self.segments)

    @property
    def fixed(self):
        """Arguments of `attention` that are no arrays."""
        offset = self.offset if isinstance(self.offset, int) else None
        given = {"window": self.window, "scale": self.scale, "soft_cap": self.soft_cap, "query_offset": offset}
        if self.dropout:
            given["dropout_rate"] = self.dropout
        return {name: value for name, value in given.items() if value is not None}

    @property
    def arrays(self):
        """Arguments of `attention`, beside queries, keys and values, that are arrays."""
        given = {"mask": self.mask, "lengths_B": self.lengths}
        if isinstance(self.offset, np.ndarray):
            given["query_offset"] = self.offset
        if self.dropout:
            given["dropout_key"] = jax.random.key(self.seed)
        return {name: value for name, value in given.items() if value is not None}

    def with_rows(self, change):
        """The case with `change` made of every array that has an entry for each row."""

        def changed(array):
            by_row = isinstance(array, np.ndarray) and len(array) == self.B
            return change(array) if by_row else array

        named = {name: changed(getattr(self, name)) for name in ("real", "lengths", "offset")}
        segments = None if self.segments is None else tuple(map(changed, self.segments))
        return dataclasses.replace(self, **named, segments=segments)

    @property
    def turned(self):
        """The same with its rows in reverse order, and another key: another mask of the same parts."""
        return dataclasses.replace(self.with_rows(lambda rows: rows[::-1]), seed=self.seed + 1)

    @property
    def doubled(self):
        """The same with every row of the mask twice."""
        return dataclasses.replace(self.with_rows(lambda rows: np.concatenate([rows, rows])), B=2 * self.B)

    def inputs(self, dtype="float32", seed=0):
        """Random q, k, v and the gradient of the heads."""
        rng = np.random.default_rng(seed)
        queries, keys = (self.B, self.T, self.H, self.D), (self.B, self.S, self.K, self.D)
        q, k, v, out = (rng.standard_normal(shape) for shape in (queries, keys, keys, queries))
        return [np.asarray(jnp.asarray(x, dtype)) for x in (self.factor * q, k, v, out)]

    def visible(self):
        """Who sees whom, [B,1,T,S], rule by rule."""
        row, query, key = np.indices((self.B, self.T, self.S))
        offset = self.S - self.T if self.offset is None else self.offset
        behind = query + np.broadcast_to(offset, self.B)[row] - key
        rules = [np.ones(row.shape, bool)]
        if self.causal:
            rules.append(behind >= 0)
        if self.window is not None:
            rules.append(abs(behind) < self.window)
        if self.real is not None:
            rules.append(self.real[row, key] != 0)
        if self.lengths is not None:
            rules.append(key < self.lengths[row])
        if self.segments is not None:
            rules.append(self.segments[0][row, query] == self.segments[1][row, key])
        return np.all(rules, axis=0)[:, None]

    @property
    def exact_scale(self):
        return 1 / math.sqrt(self.D) if self.scale is None else self.scale

    def largest_score(self, q, k):
        return np.abs(reference_numpy.attention_scores(*map(reference_numpy.float64, (q, k)), self.exact_scale)).max()

    def exact(self, arrays, kept=1.0):
        """Heads and the gradients of q, k and v, in float64."""
        q, k, v, out = map(reference_numpy.float64, arrays)
        given = {"soft_cap": self.soft_cap, "kept": kept}
        heads = reference_numpy.attention(q, k, v, self.visible(), self.exact_scale, **given)
        return heads, *reference_numpy.attention_gradients(q, k, v, self.visible(), self.exact_scale, out, **given)


def attends(case, name, arrays=None):
    """The kernel of that name on a case's arguments, or with other arrays in their place: (q, k, v) -> heads."""
    return functools.partial(
        attention, **(case.arrays if arrays is None else arrays), **case.fixed, implementation=name
    )


def gradients_of(attend, q, k, v, out):
    """Heads and the gradients of q, k and v."""
    heads, pull = jax.vjp(attend, q, k, v)
    return heads, *pull(out)


def kept(case, inputs, name):
    """What the kernel multiplies each weight by, [B,H,T,S]: with the identity as values, heads are weights."""
    if not case.dropout:
        return 1.0
    q, k, v, _ = inputs
    identity = np.broadcast_to(np.eye(case.S, dtype=v.dtype)[:, None], v.shape)
    there = np.asarray(attends(case, name)(q, k, identity)).swapaxes(1, 2) != 0
    visible = np.broadcast_to(case.visible(), there.shape)
    assert abs(there[visible].mean() - (1 - case.dropout)) < 0.1
    assert len({head.tobytes() for head in there.reshape(-1, case.T * case.S)}) == case.B * case.H
    return there / (1 - case.dropout)


def failures(case, arrays, got, kept=1.0):
    """Say what is wrong with the heads and gradients that a kernel got; an empty list if they are the exact ones.

    Errors are relative to the largest exact value; where exact arithmetic gives nothing but zeros (a gradient through
    a softmax over one key), to 1, the size of the inputs.
    """
    q, k = arrays[:2]
    tolerance = (1e-5 if q.dtype == np.float32 else 1e-2) * max(1, case.largest_score(q, k) / 100)
    visible = case.visible()[:, 0]
    blind, unseen = ~visible.any(2), ~visible.any(1)
    said = []
    for name, mine, wanted, empty in zip(
        ("heads", "gradient of q", "gradient of k", "gradient of v"),
        got,
        case.exact(arrays, kept),
        (blind, blind, unseen, unseen),
        strict=True,
    ):
        said += [f"{name}: {fault}" for fault in _faults(mine, wanted, empty, tolerance, q.dtype)]
    return said


def _faults(mine, wanted, empty, tolerance, dtype):
    if mine.dtype != dtype or mine.shape != wanted.shape:
        return [f"is {mine.dtype}{mine.shape}, not {dtype}{wanted.shape}"]
    mine = np.asarray(mine, np.float64)
    if not np.isfinite(mine).all():
        return ["is not finite"]
    largest = np.abs(wanted).max()
    error = np.abs(mine - wanted).max() / (largest if largest > 1e-3 else 1.0)
    wrong = [f"error {error:.1e}, tolerance {tolerance:.1e}"] if error > tolerance else []
    return wrong + (["not exactly zero where nothing is seen"] if mine[empty].any() else [])


def real(S, *rows):
    """True from `start` to before `stop` of each row's (start, stop)."""
    return np.array([[start <= s < stop for s in range(S)] for start, stop in rows])


def documents(*rows):
    """Segment ids of rows of documents of the given lengths."""
    return np.array([np.repeat(np.arange(len(lengths)), lengths) for lengths in rows])


PACKED = documents([3, 1, 4], [2, 4, 2])
LONG = {"B": 2, "T": 200, "S": 200, "H": 2, "K": 1}
HALVES = documents([90, 110], [150, 50])

CASES = {
    "square causal": Case(),
    "one key head": Case(K=1),
    "a key head for each query head": Case(K=4),
    "bidirectional": Case(causal=False),
    "fewer queries than keys": Case(T=3),
    "a query offset": Case(T=3, offset=2),
    "a query offset for each row": Case(T=3, offset=np.array([0, 5])),
    "one query offset for all rows, as an array": Case(T=3, offset=np.array([2])),
    "more queries than keys, from an offset": Case(S=5, offset=0),
    "windows beyond the last key": Case(T=3, window=3, offset=np.array([6, 30])),
    "one query": Case(T=1),
    "one query of a ragged past": Case(T=1, S=40, lengths=np.array([40, 7]), offset=np.array([39, 6])),
    "a few queries, windowed, of a ragged past": Case(
        T=4, S=40, window=9, lengths=np.array([40, 8]), offset=np.array([36, 4])
    ),
    "one query of long ragged pasts": Case(T=1, S=300, lengths=np.array([300, 41])),
    "one query of a long past, little of it there": Case(
        T=1, S=300, lengths=np.array([60, 41]), real=real(300, (3, 300), (0, 300))
    ),
    "one query of long pasts, one of them empty": Case(T=1, S=300, causal=False, lengths=np.array([0, 70])),
    "a few queries of a long past, offset by row": Case(T=4, S=64, K=1, offset=np.array([60, 9])),
    "a few queries of a long past, windowed and packed": Case(
        T=4,
        S=300,
        K=1,
        window=50,
        offset=np.array([240, 232]),
        segments=(documents([2, 2], [4]), documents([220, 22, 58], [300])),
    ),
    "a few queries of a long past, windowed to both sides": Case(
        T=3, S=320, causal=False, window=20, offset=np.array([100, 120]), soft_cap=2.0
    ),
    "cross": Case(T=3, S=7, causal=False),
    "cross, more queries than keys": Case(T=7, S=3, causal=False),
    "cross, padded": Case(T=3, causal=False, real=real(8, (0, 5), (2, 8))),
    "left padding": Case(real=real(8, (3, 8), (0, 8))),
    "right padding": Case(real=real(8, (0, 5), (0, 8))),
    "padding in the middle, as 0 and 1": Case(real=np.array([[1, 0, 1, 1, 0, 1, 1, 1], [0, 1, 1, 0, 1, 1, 1, 0]])),
    "nothing is real": Case(real=np.zeros((2, 8), bool)),
    "lengths": Case(lengths=np.array([8, 3])),
    "lengths, one of them 0": Case(causal=False, lengths=np.array([0, 5])),
    "three rows, one of them empty": Case(B=3, T=2, lengths=np.array([8, 3, 0])),
    "packed": Case(segments=(PACKED, PACKED)),
    "packed, bidirectional": Case(causal=False, segments=(PACKED, PACKED)),
    "packed, the queries being the last": Case(T=4, segments=(PACKED[:, 4:], PACKED)),
    "packed, a segment without keys": Case(causal=False, segments=(PACKED, PACKED % 2)),
    "window of 1": Case(window=1),
    "window smaller than the keys": Case(window=3),
    "window as wide as the keys": Case(window=8),
    "window wider than the keys": Case(window=100),
    "two-sided window smaller than the keys": Case(causal=False, window=3),
    "two-sided window as wide as the keys": Case(causal=False, window=8),
    "two-sided window wider than the keys": Case(causal=False, window=100),
    "two-sided window, fewer queries than keys": Case(T=3, causal=False, window=3),
    "window, packed and padded": Case(window=2, real=real(8, (1, 8), (0, 6)), segments=(PACKED, PACKED)),
    "no block divides the length": Case(**LONG),
    "no block divides the length, bidirectional": Case(**LONG, causal=False),
    "no block divides the length, windowed": Case(**LONG, window=30),
    "no block divides the length, windowed to both sides": Case(**LONG, causal=False, window=30),
    "no block divides the lengths, fewer queries than keys": Case(**LONG | {"T": 140}),
    "no block divides the lengths, padded and packed": Case(
        **LONG, real=real(200, (135, 200), (0, 140)), segments=(HALVES, HALVES)
    ),
    "no block divides the lengths, offset by row": Case(
        **LONG | {"T": 140}, lengths=np.array([200, 131]), offset=np.array([60, 3])
    ),
    "one key": Case(S=1, causal=False),
    "one query and one key": Case(T=1, S=1),
    "odd head size": Case(D=5),
    "odd everything": Case(B=1, T=13, S=17, H=3, K=1, D=7),
    "scores of thousands": Case(factor=1000),
    "scores of thousands, padded": Case(factor=1000, real=real(8, (3, 8), (0, 4))),
    "soft cap": Case(soft_cap=2.0),
    "soft cap, padded": Case(soft_cap=2.0, real=real(8, (3, 8), (0, 4))),
    "soft cap on scores of hundreds": Case(soft_cap=20.0, factor=100),
    "scale": Case(scale=0.7),
    "negative scale": Case(scale=-0.7),
    "dropout": Case(dropout=0.4),
    "dropout, masked": Case(dropout=0.4, causal=False, window=5, real=real(8, (0, 5), (0, 8))),
}

DROPPING = tuple(name for name, case in CASES.items() if case.dropout)
# For each kernel the reasons for which it refuses cases of the table, and which; a kernel without an entry runs all.
REFUSED = {
    "blocked": {"has no dropout of weights": DROPPING},
    "decode": {
        "has no dropout of weights": DROPPING,
        "decodes only: up to 8 queries and 4 times as many keys": tuple(
            name for name, case in CASES.items() if (case.T > 8 or case.S < 4 * case.T) and name not in DROPPING
        ),
    },
}


def refusal(name, case_name):
    """Why the kernel refuses the case here; None if it runs it."""
    if jax.default_backend() not in KERNELS[name].platforms:
        return f"runs on {' and '.join(KERNELS[name].platforms)}, not on {jax.default_backend()}"
    return next((why for why, refused in REFUSED.get(name, {}).items() if case_name in refused), None)


def own_dtype(name, dtype="float32"):
    """The dtype, or bfloat16 for a kernel of accelerators that has no float32."""
    return dtype if dtype in KERNELS[name].dtypes else "bfloat16"
