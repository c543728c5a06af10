"""Which keys a query may see, as a value that keeps its structure: kernels read the parts, `visible` joins them.

Build one with `causal`, `full`, `window`, `padding` and `segments`, and combine with `&`:
`causal() & padding(real_BS)` sees what both allow.
"""

from __future__ import annotations

import dataclasses
import numbers
from typing import Literal

import jax
import jax.numpy as jnp

from jaxgpt.config import RequestError

from ..contracts import check_shape

NamedMask = Literal["causal", "full"]


@dataclasses.dataclass(frozen=True)
class Mask:
    """What attention may see; without any part, everything.

    Attributes:
        causal: A query sees no key after its own position.
        reach: A query sees only keys less than this many positions away; None sees any distance.
        keys_BS: True where a key is real; None where all are.
        segments: (segment of each query [B,T], of each key [B,S]): a query sees only keys of its own segment.
    """

    causal: bool = False
    reach: int | None = None
    keys_BS: jax.Array | None = None
    segments: tuple[jax.Array, jax.Array] | None = None

    def __and__(self, other: Mask) -> Mask:
        """Return the mask that shows what both show."""
        if self.segments is not None and other.segments is not None:
            raise RequestError("two masks with segments cannot be combined; give each position one segment id")
        reaches = [reach for reach in (self.reach, other.reach) if reach is not None]
        keys = [keys for keys in (self.keys_BS, other.keys_BS) if keys is not None]
        return Mask(
            self.causal or other.causal,
            min(reaches, default=None),
            keys[0] & keys[1] if len(keys) == 2 else next(iter(keys), None),
            self.segments or other.segments,
        )

    @property
    def may_hide_everything(self) -> bool:
        """Whether some query may see no key at all, which only the values of the arrays could tell."""
        return self.keys_BS is not None or self.segments is not None

    def visible(self, T: int, S: int) -> jax.Array | None:
        """Return the boolean [T,S] or [B,1,T,S] of T queries, the last T of S positions; None if all is visible.

        Raises:
            RequestError: more queries than keys where distances count, or parts of other lengths.
        """
        parts = [self._by_distance(T, S), self._by_segment(T, S), self._by_key(S)]
        visible = None
        for part in parts:
            if part is not None:
                visible = part if visible is None else visible & part
        return visible

    def _by_distance(self, T: int, S: int) -> jax.Array | None:
        if not self.causal and self.reach is None:
            return None
        if T > S:
            raise RequestError(
                f"causal or window mask: {T} queries for {S} keys; queries are the last positions of the keys, so "
                "there can be no more of them: pass every key, or mask='full' for cross-attention"
            )
        distance_TS = jnp.arange(T)[:, None] + (S - T) - jnp.arange(S)
        seen = [distance_TS >= 0] if self.causal else []
        if self.reach is not None:
            seen.append((distance_TS < self.reach) & (distance_TS > -self.reach))
        return seen[0] if len(seen) == 1 else seen[0] & seen[1]

    def _by_segment(self, T: int, S: int) -> jax.Array | None:
        if self.segments is None:
            return None
        query_BT, key_BS = self.segments
        check_shape("segment_ids_BT", query_BT, T=T)
        check_shape("segment_ids_BS", key_BS, B=query_BT.shape[0], S=S)
        return (query_BT[:, :, None] == key_BS[:, None, :])[:, None]

    def _by_key(self, S: int) -> jax.Array | None:
        if self.keys_BS is None:
            return None
        check_shape("mask_BS", self.keys_BS, S=S)
        return self.keys_BS[:, None, None, :]


jax.tree_util.register_dataclass(Mask, data_fields=["keys_BS", "segments"], meta_fields=["causal", "reach"])


def causal() -> Mask:
    """Return the mask of a decoder: each query sees itself and what lies before.

    Example:
        >>> causal().visible(2, 3).astype(int).tolist()
        [[1, 1, 0], [1, 1, 1]]
    """
    return Mask(causal=True)


def full() -> Mask:
    """Return the mask that hides nothing."""
    return Mask()


def window(size: int) -> Mask:
    """Return the mask of local attention: keys less than `size` positions away, on both sides.

    Raises:
        RequestError: a size that is no whole number, or below 1.

    Example:
        >>> (causal() & window(2)).visible(3, 3).astype(int).tolist()
        [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """
    if not isinstance(size, numbers.Integral) or size < 1:
        raise RequestError(
            f"window: expected a whole number of at least 1, got {size!r}; 1 sees only the position itself"
        )
    return Mask(reach=int(size))


def padding(real_BS: jax.Array) -> Mask:
    """Return the mask that hides padding: keys where `real_BS` [B,S] is false (or 0).

    Over the keys of an encoder's output it is the mask of cross-attention.

    Raises:
        RequestError: not [B,S], or numbers that are neither booleans nor integers.

    Example:
        >>> padding(jnp.array([[True, False]])).visible(1, 2).tolist()
        [[[[True, False]]]]
    """
    check_shape("mask_BS", real_BS)
    dtype = jnp.result_type(real_BS)
    if dtype != jnp.bool_ and not jnp.issubdtype(dtype, jnp.integer):
        raise RequestError(f"mask: expected booleans (or 0 and 1), got {dtype}; true marks a real token")
    return Mask(keys_BS=jnp.asarray(real_BS) != 0)


def segments(query_ids_BT: jax.Array, key_ids_BS: jax.Array | None = None) -> Mask:
    """Return the mask of packed documents: a query sees only keys with its own segment id.

    Args:
        query_ids_BT: Segment of each query, whole numbers [B,T].
        key_ids_BS: Segment of each key, [B,S]; None takes the queries'.

    Example:
        >>> segments(jnp.array([[7, 7, 8]])).visible(3, 3)[0, 0].astype(int).tolist()
        [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """
    key_ids_BS = query_ids_BT if key_ids_BS is None else key_ids_BS
    check_shape("segment_ids_BT", query_ids_BT)
    check_shape("segment_ids_BS", key_ids_BS)
    return Mask(segments=(jnp.asarray(query_ids_BT), jnp.asarray(key_ids_BS)))


def as_mask(mask: Mask | NamedMask) -> Mask:
    """Return the mask that a name stands for, or the mask itself."""
    if isinstance(mask, Mask):
        return mask
    if not isinstance(mask, str) or mask not in ("causal", "full"):
        raise RequestError(f"mask: expected 'causal', 'full' or one built by jaxgpt.masks, got {mask!r}")
    return causal() if mask == "causal" else full()


def positions(T: int, mask_BT: jax.Array | None = None, segment_ids_BT: jax.Array | None = None) -> jax.Array | None:
    """Return each token's position [B,T], int32, as every entry point counts it; None where it is simply its index.

    Padding has no position of its own: real tokens count from 0 in their row, or from 0 in their segment, whatever
    stands before them.

    Args:
        T: Length of the rows.
        mask_BT: True at real tokens, or None.
        segment_ids_BT: Segment of each token, or None; a segment is a run of equal ids.

    Example:
        >>> positions(3, mask_BT=jnp.array([[0, 1, 1]])).tolist()
        [[0, 0, 1]]
        >>> positions(4, segment_ids_BT=jnp.array([[7, 7, 8, 8]])).tolist()
        [[0, 1, 0, 1]]
    """
    if mask_BT is None and segment_ids_BT is None:
        return None
    some_BT = segment_ids_BT if mask_BT is None else mask_BT
    real_BT = jnp.ones(some_BT.shape, jnp.int32) if mask_BT is None else (jnp.asarray(mask_BT) != 0).astype(jnp.int32)
    check_shape("mask_BT", real_BT, T=T)
    before_BT = jnp.cumsum(real_BT, axis=1) - real_BT
    if segment_ids_BT is None:
        return before_BT
    check_shape("segment_ids_BT", segment_ids_BT, B=real_BT.shape[0], T=T)
    return before_BT - jax.lax.cummax(jnp.where(_begins(segment_ids_BT), before_BT, 0), axis=1)


def runs(segment_ids_BT: jax.Array) -> jax.Array:
    """Number the runs of equal ids in each row from 1, int32 [B,T]: an id that comes again is another document.

    Example:
        >>> runs(jnp.array([[7, 7, 8, 7]])).tolist()
        [[1, 1, 2, 3]]
    """
    check_shape("segment_ids_BT", segment_ids_BT)
    return jnp.cumsum(_begins(segment_ids_BT), axis=1, dtype=jnp.int32)


def _begins(segment_ids_BT: jax.Array) -> jax.Array:
    """Return where a run of equal ids begins, boolean [B,T]."""
    changes_BT = segment_ids_BT[:, 1:] != segment_ids_BT[:, :-1]
    return jnp.concatenate([jnp.ones_like(segment_ids_BT[:, :1], bool), changes_BT], axis=1)
