"""Attention: masks, kernels, and the one function that chooses among them."""

from . import masks
from .call import Platform
from .dispatch import Implementation, attention, explain_attention
from .masks import Mask, NamedMask
from .multi_head import multi_head_attention
from .reference import masked_softmax
from .registry import KERNELS, Choice, Kernel

__all__ = [
    "KERNELS",
    "Choice",
    "Implementation",
    "Kernel",
    "Mask",
    "NamedMask",
    "Platform",
    "attention",
    "explain_attention",
    "masked_softmax",
    "masks",
    "multi_head_attention",
]
