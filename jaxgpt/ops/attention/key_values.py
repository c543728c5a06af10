"""The keys and values that one attention layer remembers: the memory of a KV cache (Shazeer 2019, arXiv 1911.02150).

Its layout is nobody else's business: XLA updates a buffer in place only if it has no axis of size 1, and reads it
without a copy only if the features are innermost and the tokens next to them.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from ..contracts import check_shape
from .spread import division


@dataclasses.dataclass(frozen=True)
class KeyValues:
    """Room for S keys and values per row and key head; slot s holds those of the row's token at position s.

    Attributes:
        k, v: [B*K,S,D] without an axis of size 1 before S; [B,K,S,D] where a mesh divides rows or heads.
    """

    k: jax.Array
    v: jax.Array

    @property
    def slots(self) -> int:
        """How many tokens there is room for, S."""
        return self.k.shape[-2]

    def written(self, k_BTKD: jax.Array, v_BTKD: jax.Array, start_B: jax.Array) -> KeyValues:
        """Return the memory with T new tokens in each row, from slot `start_B` on.

        The tokens must fit: as with every `dynamic_update_slice`, a start that is too late moves back.
        """
        B, _, K, D = k_BTKD.shape
        check_shape("start_B", start_B, B=B)
        check_shape("v_BTKD", v_BTKD, B=B, K=K, D=D)
        return KeyValues(_written(self.k, k_BTKD, start_B), _written(self.v, v_BTKD, start_B))

    def views(self, B: int) -> tuple[jax.Array, jax.Array]:
        """Return (k_BSKD, v_BSKD) of all slots, as attention takes them."""
        S, D = self.k.shape[-2:]
        k_BSKD, v_BSKD = (x.reshape(B, -1, S, D).swapaxes(1, 2) for x in (self.k, self.v))
        return k_BSKD, v_BSKD

    def grown(self, S: int) -> KeyValues:
        """Return the memory with room for S tokens, no fewer than now."""
        widths = [(0, 0)] * (self.k.ndim - 2) + [(0, S - self.slots), (0, 0)]
        return KeyValues(jnp.pad(self.k, widths), jnp.pad(self.v, widths))

    def repeated(self, B: int, n: int) -> KeyValues:
        """Return the memory of n times the B rows, each row n times in a row."""
        return of_tokens(*(jnp.repeat(x_BSKD, n, axis=0) for x_BSKD in self.views(B)))


jax.tree_util.register_dataclass(KeyValues, data_fields=["k", "v"], meta_fields=[])


def empty(B: int, S: int, K: int, D: int, dtype: str) -> KeyValues:
    """Return a memory of zeros, divided among the devices as attention will be."""
    zeros = jnp.zeros(_shape(B, S, K, D), dtype)
    if zeros.ndim == 4:
        parts = division(B, K)
        zeros = jax.lax.with_sharding_constraint(zeros, PartitionSpec(parts.rows, parts.heads))
    return KeyValues(zeros, zeros)


def of_tokens(k_BSKD: jax.Array, v_BSKD: jax.Array) -> KeyValues:
    """Return the memory that holds exactly these keys and values."""
    k, v = (x_BSKD.swapaxes(1, 2).reshape(_shape(*x_BSKD.shape)) for x_BSKD in (k_BSKD, v_BSKD))
    return KeyValues(k, v)


def _shape(B: int, S: int, K: int, D: int) -> tuple[int, ...]:
    parts = division(B, K)
    if parts.rows or parts.heads:
        return (B, K, S, D)
    return (S, D) if B * K == 1 else (B * K, S, D)


def _written(x: jax.Array, new_BTKD: jax.Array, start_B: jax.Array) -> jax.Array:
    """Write each row's tokens at its own start; a single row never gets an axis of its own."""
    B, T, K, D = new_BTKD.shape
    new_BKTD = new_BTKD.swapaxes(1, 2).astype(x.dtype)
    if B == 1 and x.ndim < 4:
        start = (0,) * (x.ndim - 2) + (start_B[0], 0)
        return jax.lax.dynamic_update_slice(x, new_BKTD.reshape(*x.shape[:-2], T, D), start)
    x_BKSD = x.reshape(B, K, *x.shape[-2:])
    return jax.vmap(lambda x_KSD, new_KTD, start: jax.lax.dynamic_update_slice(x_KSD, new_KTD, (0, start, 0)))(
        x_BKSD, new_BKTD, start_B
    ).reshape(x.shape)
