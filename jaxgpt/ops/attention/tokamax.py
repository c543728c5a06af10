"""The Triton kernel of tokamax, a package of its own (`pip install 'jaxgpt[kernels]'`), on NVIDIA GPUs.

It takes head sizes, odd lengths and windows that cuDNN does not. It is called by its name in tokamax, so that tokamax
falls back to nothing else. With tokamax 0.0.12 it was compiled for an H200, forward and backward; it was run on none.
"""

from __future__ import annotations

import importlib.util

import jax

from .call import Call, Settings
from .cudnn import AMPERE, compute_capability, distance_refusal, lengths_of_at_least_one, zero_without_keys
from .masks import Mask


def tokamax_attention(
    q_BTHD: jax.Array, k_BSKD: jax.Array, v_BSKD: jax.Array, mask: Mask, settings: Settings
) -> jax.Array:
    """Return softmax(scale * q k^T, masked) v; a row without keys is given one and its result put to zero."""
    import tokamax
    from absl import flags

    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()  # tokamax would else take this program's command line for its own and end it
    heads_BTHD = tokamax.dot_product_attention(
        q_BTHD,
        k_BSKD,
        v_BSKD,
        scale=settings.scale,
        is_causal=mask.causal,
        key_value_seq_lengths=lengths_of_at_least_one(mask, k_BSKD.shape[1]),
        local_window_size=None if mask.reach is None else (mask.reach - 1, 0 if mask.causal else mask.reach - 1),
        implementation="triton",
    )
    return zero_without_keys(heads_BTHD, mask)


def tokamax_refusal(call: Call) -> str | None:
    """Return what the kernel, or tokamax's way to it, does not have for a call."""
    card = compute_capability()
    reasons = (
        (importlib.util.find_spec("tokamax") is None, "is not installed: pip install 'jaxgpt[kernels]'"),
        (card is None, "compiles for JAX's default device alone, which is no GPU"),
        (card is not None and card < AMPERE, f"needs an NVIDIA GPU of compute capability 8.0 or above, got {card}"),
    )
    return next((reason for applies, reason in reasons if applies), None) or distance_refusal(call)
