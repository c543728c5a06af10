"""Refuse a wrong token: every choice is held against one pass over the whole text, before anything is timed."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxgpt.config import ExecutionConfig, ModelConfig
from jaxgpt.model.modules import Transformer

from .programs import Choices
from .workload import Workload

CLOSE = 1e-4  # of the largest logit: between two that lie closer either may be chosen
NATS = 1e-5  # of the largest log-probability: how far one may lie off


class Verdict(NamedTuple):
    """Why choices are wrong, None where they are right; and how many differ where two logits lie close."""

    refusal: str | None
    close: int = 0


class _Seen(NamedTuple):
    """What one pass says of each choice, all [B,N]: the best token, how far above the chosen one, nats of that."""

    best: np.ndarray
    short: np.ndarray
    nats: np.ndarray


class Check:
    """Holds choices against full passes; of a text that was seen before the pass is remembered."""

    scope = (
        f"every token against one pass over the whole text without a cache (either of two whose logits differ by\n"
        f"less than {CLOSE:.0e} of the largest will do), its log-probability to {NATS:.0e}"
    )

    def __init__(self, params: Mapping[str, Any], workload: Workload) -> None:
        self._params, self._workload = params, workload
        self._passes: dict[bytes, _Seen] = {}

    def verdict(self, choices: Choices) -> Verdict:
        """Return whether the choices are those of the model."""
        expected = (self._workload.B, len(choices.at_N))
        if choices.chosen_BN.shape != expected:
            return Verdict(f"wrong result: got tokens {choices.chosen_BN.shape}, expected {expected}")
        seen = self._seen(choices)
        wrong_BN = ~(seen.short <= CLOSE)
        if wrong_BN.any():
            b, n = np.argwhere(wrong_BN)[0]
            where, got = f"token {choices.at_N[n]} of row {b}", choices.chosen_BN[b, n]
            return Verdict(f"wrong result: {where} is {got}; a pass over the whole text takes {seen.best[b, n]}")
        if choices.nats_BN is not None:
            off = np.abs(choices.nats_BN - seen.nats).max() / np.abs(seen.nats).max()
            if not off <= NATS:
                return Verdict(f"wrong result: log-probabilities off by {off:.1e} of the largest, at most {NATS:.0e}")
        return Verdict(None, int((choices.chosen_BN != seen.best).sum()))

    def _seen(self, choices: Choices) -> _Seen:
        asked_BT = np.zeros_like(choices.ids_BT)
        asked_BT[:, choices.at_N - 1] = choices.chosen_BN
        text = choices.ids_BT.tobytes() + asked_BT.tobytes()
        if text not in self._passes:
            rows = [
                _pass(self._workload.config, self._params, ids_T[None], asked_T[None])
                for ids_T, asked_T in zip(choices.ids_BT, asked_BT, strict=True)
            ]
            whole = (np.concatenate(part) for part in zip(*rows, strict=True))
            self._passes[text] = _Seen(*(x_BT[:, choices.at_N - 1] for x_BT in whole))
        return self._passes[text]


@functools.partial(jax.jit, static_argnums=0)
def _pass(
    config: ModelConfig, params: Mapping[str, Any], ids_BT: jax.Array, asked_BT: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    logits_BTV = Transformer(config, ExecutionConfig()).apply({"params": params}, ids_BT)
    asked_logit_BT = jnp.take_along_axis(logits_BTV, asked_BT[..., None], axis=-1)[..., 0]
    short_BT = (logits_BTV.max(-1) - asked_logit_BT) / jnp.abs(logits_BTV).max(-1)
    return logits_BTV.argmax(-1), short_BT, asked_logit_BT - jax.nn.logsumexp(logits_BTV, axis=-1)
