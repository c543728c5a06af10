"""Which keys a query may see, as a value that keeps its structure: kernels read the parts, `visible` joins them.

Build one with `causal`, `full`, `window`, `padding`, `lengths` and `segments`, and combine with `&`:
`causal() & padding(real_BS)` sees what both allow.
"""

from __future__ import annotations

import dataclasses
import functools
import numbers
from collections.abc import Callable
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp

from jaxgpt.config import RequestError

from ..contracts import ContractError, check_shape

NamedMask = Literal["causal", "full"]
MaskPart = Literal["causal", "window", "padding", "lengths", "segments", "query offset"]
Start = int | jax.Array
MASK_PARTS: tuple[MaskPart, ...] = get_args(MaskPart)


@dataclasses.dataclass(frozen=True)
class Mask:
    """What attention may see; without any part, everything.

    Attributes:
        causal: A query sees no key after its own position.
        reach: A query sees only keys less than this many positions away; None sees any distance.
        keys_BS: True where a key is real; None where all are.
        lengths_B: How many keys of each row are real, from the first on; None where all are.
        segments: (segment of each query [B,T], of each key [B,S]): a query sees only keys of its own segment.
        query_offset: Position of the first query among the keys, one number or one per row [B]; None means that the
            queries are the last positions of the keys. `attention` sets it from its argument of that name.
    """

    causal: bool = False
    reach: int | None = None
    keys_BS: jax.Array | None = None
    lengths_B: jax.Array | None = None
    segments: tuple[jax.Array, jax.Array] | None = None
    query_offset: int | jax.Array | None = None

    def __and__(self, other: Mask) -> Mask:
        """Return the mask that shows what both show."""
        if self.segments is not None and other.segments is not None:
            raise RequestError("two masks with segments cannot be combined; give each position one segment id")
        if self.query_offset is not None and other.query_offset is not None:
            raise RequestError("two masks with a query_offset cannot be combined; pass the offset to attention")
        return Mask(
            self.causal or other.causal,
            _joined(min, self.reach, other.reach),
            _joined(jnp.logical_and, self.keys_BS, other.keys_BS),
            _joined(jnp.minimum, self.lengths_B, other.lengths_B),
            self.segments or other.segments,
            self.query_offset if other.query_offset is None else other.query_offset,
        )

    @property
    def parts(self) -> tuple[MaskPart, ...]:
        """The parts that it has."""
        there = (
            self.causal,
            self.reach is not None,
            self.keys_BS is not None,
            self.lengths_B is not None,
            self.segments is not None,
            self.query_offset is not None,
        )
        return tuple(part for part, is_there in zip(MASK_PARTS, there, strict=True) if is_there)

    @property
    def by_distance(self) -> bool:
        """Whether it matters how far a key lies from a query."""
        return self.causal or self.reach is not None

    @property
    def may_hide_everything(self) -> bool:
        """Whether some query may see no key at all, which only the values of the arrays could tell.

        No position is before the first key, so a mask that is only causal shows at least that one.
        """
        hides_keys = any(part is not None for part in (self.keys_BS, self.lengths_B, self.segments))
        return hides_keys or (self.reach is not None and self.query_offset is not None)

    def fitted(self, B: int, T: int, S: int) -> Mask:
        """Return the mask for B rows of T queries and S keys: every array checked, and with B rows.

        A part that cannot change what is seen is left out: a window as wide as the keys, an offset where no distance
        counts.

        Raises:
            RequestError: more queries than keys where distances count and no offset says where the queries stand, a
                negative offset, or parts of other lengths.
        """
        if self.query_offset is not None:
            _check_whole("query_offset", self.query_offset)
        offset = self.query_offset if self.by_distance else None
        if isinstance(offset, numbers.Integral):
            offset = _checked_offset(int(offset), T, S)
        elif offset is not None:
            check_shape("query_offset_B", offset := jnp.atleast_1d(offset))
            offset = jnp.broadcast_to(offset, _rows("query_offset_B", offset, B))
        elif self.by_distance and T > S:
            raise RequestError(
                f"causal or window mask: {T} queries for {S} keys; queries are the last positions of the keys, so "
                "there can be no more of them: pass every key, a query_offset, or mask='full' for cross-attention"
            )
        far = self.reach is not None and offset is None and self.reach >= S
        return Mask(
            self.causal,
            None if far else self.reach,
            _with_rows("mask_BS", self.keys_BS, B, S=S),
            _with_rows("lengths_B", self.lengths_B, B),
            None
            if self.segments is None
            else (
                _with_rows("segment_ids_BT", self.segments[0], B, T=T),
                _with_rows("segment_ids_BS", self.segments[1], B, S=S),
            ),
            offset,
        )

    def visible(self, T: int, S: int) -> jax.Array | None:
        """Return the boolean [T,S] or [B,1,T,S] of T queries and S keys; None if all is visible.

        Raises:
            RequestError: as in `fitted`.
        """
        return self.fitted(self._row_count, T, S).tile(0, T, 0, S, S - T)

    def tile(self, query: Start, T: int, key: Start, S: int, last: int) -> jax.Array | None:
        """Return the part of `visible` at T queries from index `query` on and S keys from `key` on.

        Args:
            query, key: Where the tile begins; plain numbers, or traced ones.
            T, S: Size of the tile.
            last: Position of query 0 where the mask has no offset: the number of all keys less that of all queries.
                The mask must be `fitted`.
        """
        parts = [
            self._by_distance(query + jnp.arange(T), key + jnp.arange(S), last),
            self._by_segment(query, T, key, S),
            self._by_key(key, S),
        ]
        return functools.reduce(lambda seen, part: _joined(jnp.logical_and, seen, part), parts)

    def within(self, key: Start, S: int, last: int) -> Mask:
        """Return the mask over S keys from index `key` on, as if they were all; the mask must be `fitted`.

        Args:
            key: Where they begin; a plain number, or a traced one.
            S: How many they are.
            last: As in `tile`.
        """
        offset = last if self.query_offset is None else self.query_offset
        segments = self.segments
        return dataclasses.replace(
            self,
            keys_BS=None if self.keys_BS is None else _columns(self.keys_BS, key, S),
            lengths_B=None if self.lengths_B is None else self.lengths_B - key,
            segments=None if segments is None else (segments[0], _columns(segments[1], key, S)),
            query_offset=offset - key if self.by_distance else None,
        )

    @property
    def _row_count(self) -> int:
        """How many rows the arrays have; 1 where none tells."""
        arrays = [array for array in jax.tree.leaves(self) if jnp.ndim(array) > 0]
        return max((array.shape[0] for array in arrays), default=1)

    def _by_distance(self, queries_T: jax.Array, keys_S: jax.Array, last: int) -> jax.Array | None:
        if not self.by_distance:
            return None
        offset = last if self.query_offset is None else self.query_offset
        if jnp.ndim(offset):
            offset = offset[:, None, None, None]
        distance = queries_T[:, None] - keys_S + offset
        after = distance >= 0 if self.causal else None
        near = None if self.reach is None else (distance < self.reach) & (distance > -self.reach)
        return _joined(jnp.logical_and, after, near)

    def _by_segment(self, query: Start, T: int, key: Start, S: int) -> jax.Array | None:
        if self.segments is None:
            return None
        query_BT, key_BS = _columns(self.segments[0], query, T), _columns(self.segments[1], key, S)
        return (query_BT[:, :, None] == key_BS[:, None, :])[:, None]

    def _by_key(self, key: Start, S: int) -> jax.Array | None:
        real_BS = None if self.keys_BS is None else _columns(self.keys_BS, key, S)
        within_BS = None if self.lengths_B is None else key + jnp.arange(S) < self.lengths_B[:, None]
        seen_BS = _joined(jnp.logical_and, real_BS, within_BS)
        return None if seen_BS is None else seen_BS[:, None, None, :]


def _columns(array_BN: jax.Array, start: Start, size: int) -> jax.Array:
    """Return `size` columns from `start` on; all of them as they are."""
    whole = isinstance(start, int) and start == 0 and size == array_BN.shape[1]
    return array_BN if whole else jax.lax.dynamic_slice_in_dim(array_BN, start, size, axis=1)


def _joined(join: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    """Return both joined, or the one that is not None."""
    if one is None or other is None:
        return other if one is None else one
    return join(one, other)


def _check_whole(name: str, array: Any) -> None:
    if not jnp.issubdtype(jnp.result_type(array), jnp.integer):
        raise RequestError(f"{name}: expected whole numbers, got {jnp.result_type(array)}")


def _checked_offset(offset: int, T: int, S: int) -> int | None:
    if offset < 0:
        raise RequestError(f"query_offset: expected at least 0, got {offset}; it is the first query's position")
    return None if offset == S - T else offset


def _rows(name: str, array: jax.Array, B: int) -> tuple[int, ...]:
    """Return the array's shape with B rows; a single row serves all."""
    if array.shape[0] not in (1, B):
        raise ContractError(f"{name}: expected {B} rows, or 1 that serves all, got {array.shape[0]}")
    return (B, *array.shape[1:])


def _with_rows(name: str, array: jax.Array | None, B: int, **sizes: int) -> jax.Array | None:
    if array is None:
        return None
    check_shape(name, array, **sizes)
    return jnp.broadcast_to(array, _rows(name, array, B))


def _flatten(mask: Mask) -> tuple[tuple, tuple]:
    """Arrays are leaves; an offset that is a plain number stays one, so that kernels may leave out blocks by it."""
    fixed = mask.query_offset if isinstance(mask.query_offset, numbers.Integral) else None
    traced = None if fixed is not None else mask.query_offset
    return (mask.keys_BS, mask.lengths_B, mask.segments, traced), (mask.causal, mask.reach, fixed)


def _unflatten(meta: tuple, leaves: tuple) -> Mask:
    (causal, reach, fixed), (keys_BS, lengths_B, segments, traced) = meta, leaves
    return Mask(causal, reach, keys_BS, lengths_B, segments, traced if fixed is None else fixed)


jax.tree_util.register_pytree_node(Mask, _flatten, _unflatten)


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


def lengths(lengths_B: jax.Array) -> Mask:
    """Return the mask that hides the keys from each row's length on: `lengths_B` [B], whole numbers.

    It says the same as `padding` on the right, in a form that kernels know how to skip.

    Example:
        >>> lengths(jnp.array([1])).visible(1, 2).tolist()
        [[[[True, False]]]]
    """
    check_shape("lengths_B", lengths_B)
    _check_whole("lengths_B", lengths_B)
    return Mask(lengths_B=jnp.asarray(lengths_B))


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
    _check_whole("segment_ids_BT", query_ids_BT)
    _check_whole("segment_ids_BS", key_ids_BS)
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
