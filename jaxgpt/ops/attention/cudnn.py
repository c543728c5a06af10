"""cuDNN's fused attention on NVIDIA GPUs, through `jax.nn.dot_product_attention`; memory is linear in the length.

Only what cuDNN has without a table of T x S numbers is used: causal masks, windows before the query, lengths of rows.
"""

from __future__ import annotations

import importlib.util
import re

import jax
import jax.numpy as jnp
from jax.extend import backend

from .call import Call, Settings
from .masks import Mask

_PACKAGES = ("jax_cuda13_plugin", "jax_cuda12_plugin")
AMPERE, _HOPPER = (8, 0), (9, 0)


def cudnn_attention(
    q_BTHD: jax.Array, k_BSKD: jax.Array, v_BSKD: jax.Array, mask: Mask, settings: Settings
) -> jax.Array:
    """Return softmax(scale * q k^T, masked) v; no key is copied for the query heads that share it."""
    heads_BTHD = jax.nn.dot_product_attention(
        q_BTHD,
        k_BSKD,
        v_BSKD,
        scale=settings.scale,
        is_causal=mask.causal,
        key_value_seq_lengths=lengths_of_at_least_one(mask, k_BSKD.shape[1]),
        local_window_size=None if mask.reach is None else (mask.reach - 1, 0),
        implementation="cudnn",
    )
    return zero_without_keys(heads_BTHD, mask)


def lengths_of_at_least_one(mask: Mask, S: int) -> jax.Array | None:
    """Return the lengths, int32 [B], with one key for a row that has none.

    What such kernels make of a row without keys is not documented; `zero_without_keys` puts its heads to zero, which
    its gradients then are as well.
    """
    return None if mask.lengths_B is None else jnp.clip(mask.lengths_B.astype(jnp.int32), 1, S)


def zero_without_keys(heads_BTHD: jax.Array, mask: Mask) -> jax.Array:
    """Return the heads, those of rows with a length of 0 put to zero."""
    if mask.lengths_B is None:
        return heads_BTHD
    return jnp.where(mask.lengths_B[:, None, None, None] > 0, heads_BTHD, 0)


def cudnn_refusal(call: Call) -> str | None:
    """Return what cuDNN, or JAX's way to it, does not have for a call."""
    mask, card = call.mask, compute_capability()
    largest = 256 if card is not None and card >= _HOPPER else 128
    reasons = (
        (not any(map(importlib.util.find_spec, _PACKAGES)), "is not installed: pip install 'jaxgpt[cuda]'"),
        (card is not None and card < AMPERE, f"needs an NVIDIA GPU of compute capability 8.0 or above, got {card}"),
        (bool(call.D % 8) or largest < call.D, f"needs a head size that 8 divides, up to {largest}, got {call.D}"),
        (bool(call.T % 2 or call.S % 2), f"needs even lengths, got {call.T} queries and {call.S} keys"),
        (mask.reach is not None and not mask.causal, "has windows for causal masks only"),
    )
    return next((reason for applies, reason in reasons if applies), None) or distance_refusal(call)


def distance_refusal(call: Call) -> str | None:
    """Return what a kernel that counts query 0 as key 0, and gives no zeros to a query without keys, cannot do."""
    mask = call.mask
    if mask.by_distance and call.T != call.S:
        return f"has causal masks and windows for as many keys as queries only, got {call.S} and {call.T}"
    if mask.reach is not None and mask.lengths_B is not None:
        return "has windows and lengths, but not together: a query far behind the last key would see nothing"
    return None


def compute_capability() -> tuple[int, int] | None:
    """Return that of JAX's default device, (0, 0) for a GPU that is not NVIDIA's; None if it is no GPU."""
    device = backend.get_default_device()
    if device.platform != "gpu":
        return None
    found = re.fullmatch(r"(\d+)\.(\d+)", str(device.compute_capability))
    return (int(found[1]), int(found[2])) if found else (0, 0)
