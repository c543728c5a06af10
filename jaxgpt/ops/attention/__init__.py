"""Attention: masks, implementations, and the one function that chooses among them."""

from .dispatch import Implementation, attention
from .mask import Mask, causal_mask
from .multi_head import multi_head_attention
from .reference import masked_softmax

__all__ = ["Implementation", "Mask", "attention", "causal_mask", "masked_softmax", "multi_head_attention"]
