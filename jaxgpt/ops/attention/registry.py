"""The kernels of attention: what each supports, which one `auto` takes, and why the others are left."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax

from jaxgpt.config import RequestError, nearest

from ..taps import no_tap
from .blocked import blocked_attention
from .call import Call, Platform, Settings
from .cudnn import cudnn_attention, cudnn_refusal
from .decode import decode_attention, decode_pays, decode_refusal
from .dense import dense_attention
from .masks import MASK_PARTS, Mask, MaskPart
from .reference import reference_attention
from .splash import splash_attention, splash_refusal
from .tokamax import tokamax_attention, tokamax_refusal

Run = Callable[[jax.Array, jax.Array, jax.Array, Mask, Settings], jax.Array]


DTYPES = ("float32", "bfloat16", "float16")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """An implementation of attention and what it declares to support; what it does not support it refuses.

    Attributes:
        name: By which `implementation` names it.
        run: (q_BTHD, k_BSKD, v_BSKD, fitted mask, settings) -> heads_BTHD.
        platforms: What it compiles for.
        dtypes: Of queries, keys and values.
        mask_parts: Parts of a mask that it reads.
        soft_cap, dropout, taps: Whether it has them.
        also: Says what else it refuses, with the reason; None where nothing.
        pays: Says why `auto` leaves a call that the kernel could run; None where it takes it.
        local: Whether the compiler cannot divide it among devices: each then runs it on rows and heads of its own.
    """

    name: str
    run: Run
    platforms: tuple[Platform, ...] = ("cpu", "gpu", "tpu")
    dtypes: tuple[str, ...] = DTYPES
    mask_parts: tuple[MaskPart, ...] = MASK_PARTS
    soft_cap: bool = True
    dropout: bool = True
    taps: bool = False
    also: Callable[[Call], str | None] = lambda call: None
    pays: Callable[[Call], str | None] = lambda call: None
    local: bool = False

    def refusal(self, call: Call) -> str | None:
        """Return why this kernel cannot run a call; None if it can."""
        settings = call.settings
        unread = [part for part in call.mask.parts if part not in self.mask_parts]
        reasons = (
            (call.platform not in self.platforms, f"runs on {' and '.join(self.platforms)}, not on {call.platform}"),
            (call.dtype not in self.dtypes, f"computes in {' or '.join(self.dtypes)}, not in {call.dtype}"),
            (bool(unread), f"does not read this part of the mask: {', '.join(unread)}"),
            (settings.soft_cap is not None and not self.soft_cap, "has no soft cap"),
            (settings.drops and not self.dropout, "has no dropout of weights"),
            (settings.tap is not no_tap and not self.taps, "has no scores or weights to trace"),
            (self.local and call.explicit, "divides Auto mesh axes only: make the mesh with AxisType.Auto"),
        )
        return next((reason for applies, reason in reasons if applies), None) or self.also(call)


# Queries and keys from which `blocked` is no slower than `dense` on a CPU, measured (bench/NOTES.md). Its tiles are
# too small for a single device to divide among its threads, so there it has to save more; where the mask leaves no
# tile out, and in 16 bits, it saves less.
_BLOCKED_FROM_DIVIDED, _BLOCKED_FROM_WHOLE, _BLOCKED_FROM_OTHERWISE = 256, 512, 1024


def _blocked_pays(call: Call) -> str | None:
    least = _BLOCKED_FROM_DIVIDED if call.divided else _BLOCKED_FROM_WHOLE
    if not call.mask.by_distance or call.dtype != "float32":
        least = _BLOCKED_FROM_OTHERWISE
    if min(call.T, call.S) >= least:
        return None
    return f"is not quicker than dense on a call like this below {least} queries and keys"


def _blocked_refusal(call: Call) -> str | None:
    return None if call.B and call.T and call.S else "has no tiles for an array without elements"


REFERENCE = Kernel("reference", reference_attention, taps=True)
DENSE = Kernel("dense", dense_attention)
BLOCKED = Kernel("blocked", blocked_attention, dropout=False, also=_blocked_refusal, pays=_blocked_pays, local=True)
DECODE = Kernel("decode", decode_attention, dropout=False, also=decode_refusal, pays=decode_pays, local=True)
CUDNN = Kernel(
    "cudnn",
    cudnn_attention,
    platforms=("gpu",),
    dtypes=("bfloat16", "float16"),
    mask_parts=("causal", "window", "lengths"),
    soft_cap=False,
    dropout=False,
    also=cudnn_refusal,
    local=True,
)
SPLASH = Kernel(
    "splash",
    splash_attention,
    platforms=("tpu",),
    dtypes=("float32", "bfloat16"),
    dropout=False,
    also=splash_refusal,
    local=True,
)
TOKAMAX = Kernel(
    "tokamax",
    tokamax_attention,
    platforms=("gpu",),
    dtypes=("bfloat16", "float16"),
    mask_parts=("causal", "window", "lengths"),
    soft_cap=False,
    dropout=False,
    also=tokamax_refusal,
    local=True,
)

KERNELS = {kernel.name: kernel for kernel in (REFERENCE, DENSE, BLOCKED, DECODE, CUDNN, SPLASH, TOKAMAX)}

# In this order `auto` asks each kernel; dense supports everything but taps, and reference those.
_ORDER: dict[Platform, tuple[Kernel, ...]] = {
    "cpu": (DECODE, BLOCKED, DENSE, REFERENCE),
    "gpu": (CUDNN, TOKAMAX, DENSE, REFERENCE),
    "tpu": (SPLASH, DENSE, REFERENCE),
}


@dataclasses.dataclass(frozen=True)
class Choice:
    """Which kernel runs a call, and why each other one does not; `print` it to read it.

    Attributes:
        kernel: Name of the kernel that runs.
        reason: Why it is the one.
        others: For each other kernel, by name, why it does not run.
        refusals: Of those the ones that cannot run the call, whoever asks, and why.
    """

    kernel: str
    reason: str
    others: dict[str, str]
    refusals: dict[str, str]

    def __str__(self) -> str:
        width = max(map(len, (self.kernel, *self.others)))
        rows = [f"{self.kernel:<{width}}  runs: {self.reason}"]
        return "\n".join([*rows, *(f"{name:<{width}}  not taken: {why}" for name, why in self.others.items())])


def choose(call: Call, implementation: str) -> Choice:
    """Return the choice for a call: the named kernel or, by "auto", the first of the platform's order that will do.

    Raises:
        RequestError: an unknown name, or a named kernel that does not support the call.
    """
    refusals = {name: why for name, kernel in KERNELS.items() if (why := kernel.refusal(call)) is not None}
    if implementation == "auto":
        return _automatic(call, refusals)
    if implementation not in KERNELS:
        known = ("auto", *KERNELS)
        close = nearest(str(implementation), known)
        raise RequestError(f"attention implementation '{implementation}' is not one of {known}{close}")
    if implementation in refusals:
        able = " or ".join(f"'{name}'" for name in KERNELS if name not in refusals)
        raise RequestError(f"attention '{implementation}' {refusals[implementation]}; use 'auto' or {able}")
    asked = f"'{implementation}' was asked for"
    others = {name: refusals.get(name, asked) for name in KERNELS if name != implementation}
    return Choice(implementation, "it was asked for", others, refusals)


def _automatic(call: Call, refusals: dict[str, str]) -> Choice:
    """Ask the platform's kernels in order; what is in no order runs only by name."""
    order = _ORDER[call.platform]
    reasons = {kernel.name: refusals.get(kernel.name) or kernel.pays(call) for kernel in order}
    chosen = next(name for name, reason in reasons.items() if reason is None)
    others = {
        name: refusals.get(name)
        or reasons.get(name)
        or (f"{chosen} comes first" if name in reasons else "runs only by name")
        for name in KERNELS
        if name != chosen
    }
    return Choice(chosen, f"first of {', '.join(reasons)} on {call.platform} that takes this call", others, refusals)
