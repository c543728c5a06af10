"""Drafting by prompt lookup: what followed the last tokens when they stood in the text before may follow again."""

from __future__ import annotations

import dataclasses
import numbers

import jax
import jax.numpy as jnp

from jaxgpt.config import RequestError
from jaxgpt.ops.contracts import check_shape


@dataclasses.dataclass(frozen=True)
class PromptLookup:
    """Speculative decoding without a second model (Saxena 2023, "prompt lookup decoding").

    Each step drafts tokens from the row's own text and checks all of them in one pass; what greedy choices would not
    have been is thrown away (Leviathan et al. 2023, arXiv 2211.17192, at temperature 0).

    Attributes:
        draft: Tokens that are drafted at a time.
        longest: Longest run of last tokens that is looked for; shorter ones serve where it is not found.

    Raises:
        RequestError: numbers below 1.
    """

    draft: int = 4
    longest: int = 3

    def __post_init__(self) -> None:
        for name, count in dataclasses.asdict(self).items():
            if isinstance(count, bool) or not isinstance(count, numbers.Integral) or count < 1:
                raise RequestError(f"lookup: expected {name} to be a whole number of at least 1, got {count!r}")


jax.tree_util.register_static(PromptLookup)


def drafted(ids_BN: jax.Array, lengths_B: jax.Array, lookup: PromptLookup) -> jax.Array:
    """Return what followed the last tokens of each row where they stood before, [B,draft]; any ids where nowhere.

    Of all places the one with the longest run is taken, and of those the last.

    Args:
        ids_BN: The rows' ids, anything behind them.
        lengths_B: How many of them are the row's.
        lookup: What to look for.

    Example:
        >>> ids_BN = jnp.array([[5, 6, 7, 8, 5, 6, 0, 0]])
        >>> drafted(ids_BN, jnp.array([6]), PromptLookup(draft=2)).tolist()  # 5, 6 was followed by 7, 8
        [[7, 8]]
    """
    check_shape("ids_BN", ids_BN)
    N = ids_BN.shape[1]
    behind_N = jnp.arange(N)  # a place is named by the index of the token behind the run
    run_BN = jnp.zeros(ids_BN.shape, jnp.int32)
    goes_on_BN = behind_N < lengths_B[:, None]
    for i in range(1, lookup.longest + 1):
        last_B1 = jnp.take_along_axis(ids_BN, lengths_B[:, None] - i, axis=1, mode="clip")
        goes_on_BN &= (jnp.roll(ids_BN, i, axis=1) == last_B1) & (behind_N >= i)
        run_BN += goes_on_BN
    place_B = jnp.argmax(run_BN * N + behind_N, axis=1)
    return jnp.take_along_axis(ids_BN, place_B[:, None] + jnp.arange(lookup.draft), axis=1, mode="clip")
