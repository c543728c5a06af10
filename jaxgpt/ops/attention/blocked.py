"""Attention in blocks: never more than a tile of scores at a time, and no tile that the mask hides whole.

One head after another, one block of queries after another, over the blocks of keys that it may see; what is in hand
fits a core's cache. The forward pass is the online softmax of FlashAttention-2 (Dao 2023, arXiv 2307.08691,
algorithm 1), the backward pass its algorithm 2 with tiles transposed, keys by queries, so that every product is one
of matrices as they lie. Memory grows with T + S.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.lax import dynamic_slice_in_dim, dynamic_update_slice_in_dim

from .call import Settings
from .dense import HIDDEN
from .masks import Mask
from .reference import soft_capped
from .tiling import Sight, Tiling, extended, pack, padded, row_of, unpack


def blocked_attention(
    q_BTHD: jax.Array, k_BSKD: jax.Array, v_BSKD: jax.Array, mask: Mask, settings: Settings
) -> jax.Array:
    """Return softmax(scale * q k^T, masked) v without ever holding the scores.

    It has a backward pass of its own, so it can be differentiated in reverse mode, and that once; for the forward
    mode, or for second derivatives in reverse mode, use another kernel.
    """
    B, T, H, D = q_BTHD.shape
    S, K = k_BSKD.shape[1:3]
    q_BTHD, factor = settings.scaled(q_BTHD)
    tiling = Tiling.of(T, S, H // K, factor, settings.soft_cap)
    q_NIRD = pack(q_BTHD, K, tiling)
    k_NSD, v_NSD = (padded(x.swapaxes(1, 2).reshape(B * K, S, D), tiling.keys) for x in (k_BSKD, v_BSKD))
    heads_NIRD = _attend(tiling, q_NIRD, k_NSD, v_NSD, extended(mask, tiling))
    return unpack(heads_NIRD.astype(q_BTHD.dtype), B, K, tiling)


class _Saved(NamedTuple):
    """What the forward pass leaves for the backward pass: its arguments, heads, and each row's maximum and 1/sum.

    Heads are float32 whatever the queries are: rounded, they would no longer be the mean of the values. Maximum and
    sum are the log-sum-exp in two numbers: of large scores, one number would lose the digits that count.
    """

    q_NIRD: jax.Array
    k_NSD: jax.Array
    v_NSD: jax.Array
    mask: Mask
    heads_NIRD: jax.Array
    maximum_NIR: jax.Array
    inverse_NIR: jax.Array


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(tiling: Tiling, q_NIRD: jax.Array, k_NSD: jax.Array, v_NSD: jax.Array, mask: Mask) -> jax.Array:
    """Return the heads, float32."""
    return _attend_and_save(tiling, q_NIRD, k_NSD, v_NSD, mask)[0]


def _attend_and_save(
    tiling: Tiling, q_NIRD: jax.Array, k_NSD: jax.Array, v_NSD: jax.Array, mask: Mask
) -> tuple[jax.Array, _Saved]:
    def one_head(head):
        n, q_IRD, k_SD, v_SD = head
        mine = row_of(mask, n, q_NIRD.shape[0])
        blocks = jnp.arange(tiling.blocks), q_IRD
        return lax.map(lambda block: _heads_of_block(Sight(tiling, mine, block[0]), block[1], k_SD, v_SD), blocks)

    heads_NIRD, maximum_NIR, inverse_NIR = lax.map(one_head, (jnp.arange(q_NIRD.shape[0]), q_NIRD, k_NSD, v_NSD))
    return heads_NIRD, _Saved(q_NIRD, k_NSD, v_NSD, mask, heads_NIRD, maximum_NIR, inverse_NIR)


def _heads_of_block(
    sight: Sight, q_RD: jax.Array, k_SD: jax.Array, v_SD: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the heads of one block of queries, and each row's maximum score and 1/sum of exponentials."""
    cap, factor, size = sight.tiling.soft_cap, sight.tiling.factor, sight.tiling.block_S

    def tile(j, carry, *, masked):
        maximum_R1, sum_R1, heads_RD = carry
        keys_SD, values_SD = (dynamic_slice_in_dim(x_SD, j * size, size) for x_SD in (k_SD, v_SD))
        scores_RS = soft_capped(_product(q_RD, keys_SD.T) * factor, cap)
        if masked:
            scores_RS = jnp.where(sight.visible(j), scores_RS, HIDDEN)
        new_R1 = jnp.maximum(maximum_R1, scores_RS.max(axis=1, keepdims=True))
        weights_RS, shrink_R1 = jnp.exp(scores_RS - new_R1), jnp.exp(maximum_R1 - new_R1)
        sum_R1 = sum_R1 * shrink_R1 + weights_RS.sum(axis=1, keepdims=True)
        return new_R1, sum_R1, heads_RD * shrink_R1 + _product(weights_RS.astype(values_SD.dtype), values_SD)

    R, D = q_RD.shape
    zero = _zero_like(q_RD, k_SD, sight.mask)
    start = jnp.full((R, 1), HIDDEN) + zero, jnp.zeros((R, 1)) + zero, jnp.zeros((R, D)) + zero
    maximum_R1, sum_R1, heads_RD = sight.over_keys(tile, start)
    # While a row has seen nothing, its hidden scores have weight 1; its maximum tells.
    inverse_R1 = jnp.where(maximum_R1 > HIDDEN, 1 / jnp.where(sum_R1 > 0, sum_R1, 1), 0)
    return heads_RD * inverse_R1, maximum_R1[:, 0], inverse_R1[:, 0]


def _pull(tiling: Tiling, saved: _Saved, d_heads_NIRD: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, None]:
    """Return the gradients of queries, keys and values; a mask has none."""

    def one_head(head):
        n, k_SD, v_SD, *blocks = head
        mine = row_of(saved.mask, n, saved.q_NIRD.shape[0])

        def one_block(d_kv, block):
            i, *rows = block
            return _pull_block(Sight(tiling, mine, i), k_SD, v_SD, d_kv, *rows)

        empty_SD = jnp.zeros(k_SD.shape) + _zero_like(saved.q_NIRD, k_SD, saved.mask)
        (d_k_SD, d_v_SD), d_q_IDR = lax.scan(one_block, (empty_SD, empty_SD), (jnp.arange(tiling.blocks), *blocks))
        return d_q_IDR.swapaxes(1, 2), d_k_SD.astype(k_SD.dtype), d_v_SD.astype(v_SD.dtype)

    shares_NIR = _shares(d_heads_NIRD, saved.heads_NIRD)
    # Rounded to the dtype they had when they came in, so nothing is lost.
    rows = saved.q_NIRD, d_heads_NIRD.astype(saved.q_NIRD.dtype), saved.maximum_NIR, saved.inverse_NIR, shares_NIR
    heads = jnp.arange(len(saved.q_NIRD)), saved.k_NSD, saved.v_NSD, *rows
    return *lax.map(one_head, heads), None


def _shares(d_heads_NIRD: jax.Array, heads_NIRD: jax.Array) -> jax.Array:
    """Return the dot product of each row's gradient and head, float32 [N,I,R].

    It is subtracted from products of the same gradient with the values, and where one weight is 1 the difference must
    be 0 to the last digit; so it is the diagonal of a product of the same kind, which adds in the same order.
    """
    N, I, R, D = heads_NIRD.shape  # noqa: E741
    some = 64 if R % 64 == 0 else R

    def diagonals(pair):
        d_heads_RD, heads_RD = (x_RD.reshape(R // some, some, D) for x_RD in pair)
        products = jnp.einsum("cqd,crd->cqr", d_heads_RD, heads_RD, preferred_element_type=jnp.float32)
        return jnp.diagonal(products, axis1=1, axis2=2).reshape(R)

    blocks = (x_NIRD.reshape(N * I, R, D) for x_NIRD in (d_heads_NIRD, heads_NIRD))
    return lax.map(diagonals, tuple(blocks)).reshape(N, I, R)


def _pull_block(sight, k_SD, v_SD, d_kv, q_RD, d_heads_RD, maximum_R, inverse_R, share_R):
    """Return the sums of d_k and d_v with this block's, and its d_q transposed, [D,R]."""
    cap, factor, size = sight.tiling.soft_cap, sight.tiling.factor, sight.tiling.block_S

    def tile(j, carry, *, masked):
        d_q_DR, d_k_SD, d_v_SD = carry
        at = j * size
        keys_SD, values_SD = (dynamic_slice_in_dim(x_SD, at, size) for x_SD in (k_SD, v_SD))
        capped_SR = scores_SR = soft_capped(_product(keys_SD, q_RD.T) * factor, cap)
        if masked:
            scores_SR = jnp.where(sight.visible(j).T, scores_SR, HIDDEN)
        weights_SR = jnp.exp(scores_SR - maximum_R) * inverse_R
        d_scores_SR = weights_SR * (_product(values_SD, d_heads_RD.T) - share_R) * factor
        if cap is not None:
            d_scores_SR = d_scores_SR * (1 - (capped_SR / cap) ** 2)
        weights_SR, d_scores_SR = weights_SR.astype(q_RD.dtype), d_scores_SR.astype(q_RD.dtype)
        return (
            d_q_DR + _product(keys_SD.T, d_scores_SR),
            _added(d_k_SD, _product(d_scores_SR, q_RD), at),
            _added(d_v_SD, _product(weights_SR, d_heads_RD), at),
        )

    empty_DR = jnp.zeros(q_RD.shape[::-1]) + _zero_like(q_RD, k_SD, sight.mask)
    d_q_DR, *d_kv = sight.over_keys(tile, (empty_DR, *d_kv))
    return tuple(d_kv), d_q_DR.astype(q_RD.dtype)


def _zero_like(*trees: Any) -> jax.Array:
    """Return 0, as a number that varies over the devices as the arrays do.

    Inside `jax.shard_map` a loop must start with what it ends with in that respect too.
    """
    firsts = [leaf.ravel()[0] for leaf in jax.tree.leaves(trees)]
    return functools.reduce(jnp.add, [((first != first) & False).astype(jnp.float32) for first in firsts])


def _product(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, preferred_element_type=jnp.float32)


def _added(whole_SD: jax.Array, part_SD: jax.Array, at: jax.Array) -> jax.Array:
    """Return the array with `part` added to its rows from `at` on."""
    sum_SD = dynamic_slice_in_dim(whole_SD, at, len(part_SD)) + part_SD
    return dynamic_update_slice_in_dim(whole_SD, sum_SD, at, axis=0)


_attend.defvjp(_attend_and_save, _pull)
