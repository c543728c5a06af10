"""PyTorch beside JAX: its fused attention and the textbook's three lines, on the same numbers and all cores."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxgpt.sharding.cpu import cores

from .workload import Case, Workload


def has_torch() -> bool:
    """Return whether PyTorch can be imported."""
    return importlib.util.find_spec("torch") is not None


def torch_sdpa(workload: Workload, division: Any) -> Callable[..., Any]:
    """Return PyTorch's scaled_dot_product_attention over [B,H,T,D]."""
    from torch.nn.functional import scaled_dot_product_attention

    def run(q_BHTD, k_BKTD, v_BKTD):
        grouped = workload.K != workload.H
        return scaled_dot_product_attention(q_BHTD, k_BKTD, v_BKTD, is_causal=workload.is_causal, enable_gqa=grouped)

    return run


def torch_eager(workload: Workload, division: Any) -> Callable[..., Any]:
    """Return matmul, softmax, matmul over [B,H,T,D]."""
    import torch

    hidden = torch.ones(workload.T, workload.T, dtype=torch.bool).triu(1) if workload.is_causal else None
    scale, group = 1 / math.sqrt(workload.D), workload.H // workload.K

    def run(q_BHTD, k_BKTD, v_BKTD):
        k_BHTD, v_BHTD = (x.repeat_interleave(group, 1) if group > 1 else x for x in (k_BKTD, v_BKTD))
        scores = scale * (q_BHTD @ k_BHTD.mT)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -math.inf)
        return scores.softmax(-1) @ v_BHTD

    return run


def torch_call(function: Callable[..., Any], case: Case, *, gradients: bool) -> Callable[[], Any]:
    """Return the call that computes out, or (out, gradients); tensors lie as PyTorch likes them: [B,H,T,D]."""
    import torch

    torch.set_num_threads(cores())
    arrays = [tensor(array).requires_grad_(gradients) for array in case.arguments]
    d_out = tensor(case.d_out)

    def call():
        if not gradients:
            with torch.no_grad():
                return function(*arrays)
        out = function(*arrays)
        return out.detach(), torch.autograd.grad(out, arrays, d_out)

    return call


def tensor(array_BTHD: Any) -> Any:
    """Return a tensor [B,H,T,D] of the array's dtype."""
    import torch

    dtype = getattr(torch, str(array_BTHD.dtype))
    copied = np.array(array_BTHD, np.float32).swapaxes(1, 2)
    return torch.from_numpy(copied).to(dtype).contiguous()


def untensored(tensor_BHTD: Any) -> np.ndarray:
    """Return the float32 array [B,T,H,D] of a tensor."""
    return tensor_BHTD.float().numpy().swapaxes(1, 2)
