"""Attention in blocks."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from .call import Settings
from .dense import HIDDEN
from .masks import Mask
from .reference import soft_capped

BQ = 128


def blocked_attention(q_BTHD, k_BSKD, v_BSKD, mask: Mask, settings: Settings):
    B, T, H, D = q_BTHD.shape
    S, K = k_BSKD.shape[1:3]
    G = H // K
    q = (q_BTHD * settings.scale).swapaxes(1, 2).reshape(B * K, G, T, D)
    k, v = (x.swapaxes(1, 2).reshape(B * K, S, D) for x in (k_BSKD, v_BSKD))

    def row(args):
        i, q_GTD, k_SD, v_SD = args
        mine = jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, i // K, 1), mask)
        return _attend(settings.soft_cap, q_GTD, k_SD, v_SD, mine)

    out = jax.lax.map(row, (jnp.arange(B * K), q, k, v))
    return out.reshape(B, H, T, D).swapaxes(1, 2)


def _ranges(mask, T, S):
    for t in range(0, T, BQ):
        n = min(BQ, T - t)
        lo, hi = 0, S
        off = S - T if mask.query_offset is None else mask.query_offset
        if isinstance(off, int):
            if mask.causal:
                hi = min(S, t + n + off)
            if mask.reach is not None:
                lo = max(0, min(hi - 1, t + off - mask.reach + 1))
                if not mask.causal:
                    hi = min(S, t + n - 1 + off + mask.reach)
        yield t, n, lo, max(hi, lo + 1)


def _scores(cap, q, k, mask, t, n, lo, hi, last):
    s = soft_capped(jnp.einsum("gtd,sd->gts", q, k, preferred_element_type=jnp.float32), cap)
    visible = mask.tile(t, n, lo, hi - lo, last)
    if visible is not None:
        visible = visible.reshape(visible.shape[-2:])
        s = jnp.where(visible, s, HIDDEN)
    return s, visible


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(cap, q, k, v, mask):
    return _forward(cap, q, k, v, mask)[0]


def _forward(cap, q, k, v, mask):
    T, S = q.shape[1], k.shape[0]
    outs, maxima, inverses = [], [], []
    for t, n, lo, hi in _ranges(mask, T, S):
        s, _ = _scores(cap, q[:, t : t + n], k[lo:hi], mask, t, n, lo, hi, S - T)
        m = s.max(-1, keepdims=True)
        p = jnp.exp(s - m)
        if mask.may_hide_everything:
            p = jnp.where(m > HIDDEN, p, 0)
        total = p.sum(-1, keepdims=True)
        o = jnp.einsum("gts,sd->gtd", p.astype(v.dtype), v[lo:hi], preferred_element_type=jnp.float32)
        full = jnp.where(total > 0, total, 1)
        outs.append((o / full).astype(q.dtype))
        maxima.append(m)
        inverses.append(jnp.where(total > 0, 1 / full, 0))
    out = jnp.concatenate(outs, 1)
    return out, (q, k, v, mask, jnp.concatenate(maxima, 1), jnp.concatenate(inverses, 1))


def _backward(cap, saved, d_out):
    q, k, v, mask, maximum, inverse = saved
    T, S = q.shape[1], k.shape[0]
    dq = []
    dk, dv = jnp.zeros(k.shape, jnp.float32), jnp.zeros(v.shape, jnp.float32)
    for t, n, lo, hi in _ranges(mask, T, S):
        at = slice(t, t + n)
        raw, visible = _scores(cap, q[:, at], k[lo:hi], mask, t, n, lo, hi, S - T)
        p = jnp.exp(raw - maximum[:, at]) * inverse[:, at]
        do = d_out[:, at]
        dv = dv.at[lo:hi].add(jnp.einsum("gts,gtd->sd", p.astype(do.dtype), do, preferred_element_type=jnp.float32))
        dp = jnp.einsum("gtd,sd->gts", do, v[lo:hi], preferred_element_type=jnp.float32)
        ds = p * (dp - (p * dp).sum(-1, keepdims=True))
        if cap is not None:
            ds = ds * (1 - jnp.where(visible, raw / cap, 0) ** 2 if visible is not None else 1 - (raw / cap) ** 2)
        ds = ds.astype(q.dtype)
        dq.append(jnp.einsum("gts,sd->gtd", ds, k[lo:hi], preferred_element_type=jnp.float32).astype(q.dtype))
        dk = dk.at[lo:hi].add(jnp.einsum("gts,gtd->sd", ds, q[:, at], preferred_element_type=jnp.float32))
    return jnp.concatenate(dq, 1), dk.astype(k.dtype), dv.astype(v.dtype), None


_attend.defvjp(_forward, _backward)
