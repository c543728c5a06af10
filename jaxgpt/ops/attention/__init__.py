"""Attention: masks, implementations, and the one function that chooses among them."""

from . import masks
from .dispatch import Implementation, attention
from .masks import Mask, NamedMask
from .multi_head import multi_head_attention
from .reference import masked_softmax

__all__ = ["Implementation", "Mask", "NamedMask", "attention", "masked_softmax", "masks", "multi_head_attention"]
