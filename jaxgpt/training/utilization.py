"""Model FLOP utilization: what a step's arithmetic would take at the published peak, over what it took."""

from __future__ import annotations

import jax

from jaxgpt.config import ModelConfig, RunConfig
from jaxgpt.model.specs import parameter_specs, walk

# TFLOP/s of one device without sparsity, from the vendors' data sheets, by JAX's name for the device and by compute
# dtype. NVIDIA's float32 figure is TF32, in which JAX multiplies float32 there; Google publishes none for float32.
_A100 = {"bfloat16": 312.0, "float32": 156.0}
_H100 = {"bfloat16": 989.5, "float32": 494.5}
_H100_PCIE = {"bfloat16": 756.5, "float32": 378.0}
_H100_NVL = {"bfloat16": 835.5, "float32": 417.5}
_B200 = {"bfloat16": 2250.0, "float32": 1125.0}
PEAK_TFLOPS = {
    "NVIDIA A100-SXM4-40GB": _A100,
    "NVIDIA A100-SXM4-80GB": _A100,
    "NVIDIA A100-PCIE-40GB": _A100,
    "NVIDIA A100 80GB PCIe": _A100,
    "NVIDIA H100 80GB HBM3": _H100,
    "NVIDIA H100 PCIe": _H100_PCIE,
    "NVIDIA H100 NVL": _H100_NVL,
    "NVIDIA H200": _H100,
    "NVIDIA H200 NVL": _H100_NVL,
    "NVIDIA B200": _B200,
    "TPU v4": {"bfloat16": 275.0},
    "TPU v5 lite": {"bfloat16": 197.0},
    "TPU v5e": {"bfloat16": 197.0},
    "TPU v5": {"bfloat16": 459.0},
    "TPU v5p": {"bfloat16": 459.0},
    "TPU v6 lite": {"bfloat16": 918.0},
    "TPU v6e": {"bfloat16": 918.0},
}


def counted_parameters(model: ModelConfig) -> int:
    """Return N of the convention: every parameter but those of tables that are only looked up.

    These are the position table, and the token embedding where the head has a matrix of its own; a tied embedding
    counts once, as the head's matrix.

    Example:
        >>> counted_parameters(ModelConfig.preset("gpt2"))
        123653376
    """
    looked_up = {"position_embedding"} | (set() if model.tied_head else {"token_embedding"})
    return sum(spec.size for path, spec in walk(parameter_specs(model)) if path not in looked_up)


def flops_per_token(model: ModelConfig) -> int:
    """Return the FLOPs of training on one token, 6 N + 12 L H D T (Chowdhery et al. 2022, PaLM, appendix B).

    T is the context, or the window where that is shorter. It is not counted that a causal query sees only half of it
    on average, nor what rematerialisation computes again.

    Args:
        model: A decoder or an encoder; the tokens of an encoder_decoder do not all pass the same parameters.

    Example:
        >>> flops_per_token(ModelConfig.preset("gpt2"))
        855166464
    """
    seen = min(model.context_length, model.window or model.context_length)
    attention = 12 * model.layers * model.heads * model.head_width * seen
    return 6 * counted_parameters(model) + attention


class Utilization:
    """MFU of a run on its devices.

    Args:
        config: The run's config, vocabulary size filled in.
        mesh: Its devices; their number counts.

    Attributes:
        words: The convention and the peak, or why there is none.
    """

    def __init__(self, config: RunConfig, mesh: jax.sharding.Mesh) -> None:
        kind, dtype = mesh.devices.flat[0].device_kind, config.execution.compute_dtype
        peak = PEAK_TFLOPS.get(kind, {}).get(dtype)
        self._seconds_per_token: float | None = None
        if config.model.family == "encoder_decoder":
            self.words = "n/a: source and target tokens do not pass the same parameters"
        elif peak is None:
            self.words = f"n/a: no published peak is known here for device {kind!r} computing in {dtype}"
        else:
            flops = flops_per_token(config.model)
            self._seconds_per_token = flops / (1e12 * peak * mesh.size)
            self.words = (
                f"6 N + 12 L H D T = {flops:,} FLOP a token (PaLM, appendix B; N without tables that are only looked "
                f"up) over the published peak of {mesh.size} x {peak:g} TFLOP/s ({kind}, {dtype}, without sparsity)"
            )

    def at(self, tokens_per_second: float) -> float | None:
        """Return the share of the peak at a speed, or None where it cannot be said."""
        return None if self._seconds_per_token is None else tokens_per_second * self._seconds_per_token
