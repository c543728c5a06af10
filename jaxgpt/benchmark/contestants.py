"""Who is compared: a table of names, each with its mode and the function that it runs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxgpt.config import ExecutionConfig, RequestError, nearest
from jaxgpt.model.modules import Block, FeedForward
from jaxgpt.ops.attention import KERNELS, attention, explain_attention

from .division import Division
from .peers import has_torch, torch_eager, torch_sdpa
from .workload import Subject, Workload

# All but `decode`: it takes a few queries over a long past, and here there are as many queries as keys.
_KERNELS = tuple(name for name in KERNELS if name != "decode")

Mode = Literal["eager", "disable_jit", "jit", "torch"]
Function = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Contestant:
    """One way to compute a subject.

    Attributes:
        name: As the command line and the table call it.
        make: (workload, division) -> the function of the case's arguments.
        mode: "jit" is compiled whole; "eager" runs operation by operation, "disable_jit" so even inside library
            functions that JAX compiles by themselves; "torch" is PyTorch, on all cores.
        subject: What it computes.
        refusal: workload -> why it cannot run it, or None.
        holds_squares: Whether it holds squares of scores, [B,H,T,T], that no compiler counts beforehand.
    """

    name: str
    make: Callable[[Workload, Division], Function]
    mode: Mode = "jit"
    subject: Subject = "attention"
    refusal: Callable[[Workload], str | None] = lambda workload: None
    holds_squares: bool = False


def _kernel(implementation: str) -> Callable[[Workload, Division], Function]:
    def make(workload: Workload, division: Division) -> Function:
        return functools.partial(attention, mask=workload.mask, implementation=implementation)

    return make


def _kernel_refusal(implementation: str, workload: Workload) -> str | None:
    """Ask the registry."""
    heads = ((workload.B, workload.T, count, workload.D) for count in (workload.H, workload.K, workload.K))
    shapes = [jax.ShapeDtypeStruct(shape, workload.dtype) for shape in heads]
    return explain_attention(*shapes, mask=workload.mask).refusals.get(implementation)


def _library(function: Callable[[Workload], Function]) -> Callable[[Workload, Division], Function]:
    """Divide a library's function by `shard_map`, so that no device waits for another."""

    def make(workload: Workload, division: Division) -> Function:
        run, mesh = function(workload), division.mesh
        return run if mesh is None else jax.shard_map(run, mesh=mesh, in_specs=division.spec, out_specs=division.spec)

    return make


def _jax_nn(workload: Workload) -> Function:
    return functools.partial(jax.nn.dot_product_attention, is_causal=workload.is_causal)


def _flax(workload: Workload) -> Function:
    def run(q_BTHD, k_BTHD, v_BTHD):
        mask = nn.make_causal_mask(jnp.ones(q_BTHD.shape[:2])) if workload.is_causal else None
        return nn.dot_product_attention(q_BTHD, k_BTHD, v_BTHD, mask=mask)

    return run


def _no_groups(workload: Workload) -> str | None:
    return None if workload.K == workload.H else "has no grouped heads"


def _module(subject: Subject, implementation: str) -> Callable[[Workload, Division], Function]:
    """Return the model's own module as a function of (x_BTC, params)."""

    def make(workload: Workload, division: Division) -> Function:
        if subject == "ffn":
            module, options = FeedForward(workload.config), {}
        else:
            module = Block(workload.config, ExecutionConfig(attention=implementation))
            options = {"mask": workload.mask}
        return lambda x_BTC, params: module.apply({"params": params}, x_BTC, **options)

    return make


def _torch_refusal(workload: Workload) -> str | None:
    if not has_torch():
        return "PyTorch is not installed (the `peers` extra has it)"
    return None if jax.default_backend() == "cpu" else "is compared on the CPU only"


def contestants() -> dict[str, Contestant]:
    """Return the table of all contestants, in the order of the report."""
    kernels = [Contestant(name, _kernel(name), refusal=functools.partial(_kernel_refusal, name)) for name in _KERNELS]
    rows = [
        Contestant("eager", _kernel("reference"), "eager", holds_squares=True),
        Contestant("disable_jit", _kernel("reference"), "disable_jit", holds_squares=True),
        *kernels,
        Contestant("jax.nn", _library(_jax_nn)),
        Contestant("flax.linen", _library(_flax), refusal=_no_groups),
        Contestant("torch.eager", torch_eager, "torch", refusal=_torch_refusal, holds_squares=True),
        Contestant("torch.sdpa", torch_sdpa, "torch", refusal=_torch_refusal),
        Contestant("ffn.eager", _module("ffn", "reference"), "eager", "ffn"),
        Contestant("ffn", _module("ffn", "auto"), "jit", "ffn"),
        Contestant("block.eager", _module("block", "reference"), "eager", "block", holds_squares=True),
        Contestant("block", _module("block", "auto"), "jit", "block"),
    ]
    return {row.name: row for row in rows}


def chosen(names: list[str] | None) -> list[Contestant]:
    """Return the named contestants in the table's order; None is all of them.

    Raises:
        RequestError: an unknown name, with the nearest one.

    Example:
        >>> [contestant.mode for contestant in chosen(["dense", "eager"])]
        ['eager', 'jit']
    """
    table = contestants()
    for name in names or ():
        if name not in table:
            raise RequestError(f"unknown contestant '{name}'{nearest(name, table)} (there are {', '.join(table)})")
    return [contestant for name, contestant in table.items() if names is None or name in names]
