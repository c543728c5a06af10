"""MFU: its FLOPs by hand, its peaks as published, and words where there is none."""

import jax
import numpy as np
import pytest

from jaxgpt.config import ExecutionConfig, ModelConfig, RunConfig
from jaxgpt.training.utilization import PEAK_TFLOPS, Utilization, counted_parameters, flops_per_token

# A layer of width 8 with two heads of 4: q, k, v, out 4 x 64 and 4 x 8, the feed-forward network 2 x 256 and 32 + 8,
# two norms of 16. Beside two of these are the final norm, 16, and 11 tokens of width 8.
BLOCK = 4 * 64 + 4 * 8 + 2 * 256 + 32 + 8 + 2 * 16
MODEL = ModelConfig(vocab_size=11, context_length=6, width=8, layers=2, heads=2)


class Device:
    def __init__(self, kind):
        self.device_kind, self.platform = kind, "gpu"


class Devices:
    """What is read of a mesh of devices that are not here."""

    def __init__(self, kind, size):
        self.devices, self.size = np.array([Device(kind)] * size), size


def test_parameters_that_are_only_looked_up_are_not_counted():
    assert counted_parameters(MODEL) == 2 * BLOCK + 16 + 11 * 8
    assert counted_parameters(MODEL.replace(tied_head=False)) == 2 * BLOCK + 16 + 11 * 8


@pytest.mark.parametrize(("window", "seen"), [(None, 6), (4, 4), (100, 6)])
def test_attention_counts_the_keys_that_a_query_may_see(window, seen):
    model = MODEL.replace(window=window)
    assert flops_per_token(model) == 6 * (2 * BLOCK + 16 + 88) + 12 * 2 * 2 * 4 * seen


def test_the_share_is_that_of_all_devices_together():
    config = RunConfig(model=ModelConfig.preset("gpt2"), execution=ExecutionConfig(compute_dtype="bfloat16"))
    one, eight = (Utilization(config, Devices("NVIDIA H100 80GB HBM3", n)) for n in (1, 8))
    # 6 x 123,653,376 + 12 x 12 x 12 x 64 x 1024 = 855,166,464 FLOP a token, of 989.5e12 a second
    assert one.at(400_000) == pytest.approx(400_000 * 855_166_464 / 989.5e12)
    assert eight.at(400_000) == pytest.approx(one.at(400_000) / 8)
    assert "855,166,464" in eight.words
    assert "8 x 989.5 TFLOP/s" in eight.words


@pytest.mark.parametrize(
    ("kind", "dtype"), [("cpu", "float32"), ("NVIDIA GeForce RTX 4090", "bfloat16"), ("TPU v5e", "float32")]
)
def test_an_unknown_peak_is_said_and_not_guessed(kind, dtype):
    found = Utilization(RunConfig(model=MODEL, execution=ExecutionConfig(compute_dtype=dtype)), Devices(kind, 1))
    assert found.at(1e9) is None
    assert found.words == f"n/a: no published peak is known here for device {kind!r} computing in {dtype}"


def test_two_streams_of_tokens_have_no_single_count():
    model = MODEL.replace(family="encoder_decoder")
    found = Utilization(RunConfig(model=model), Devices("NVIDIA B200", 1))
    assert found.at(1e9) is None
    assert found.words.startswith("n/a: source and target")


def test_the_cores_of_this_machine_have_no_published_peak():
    assert jax.devices("cpu")[0].device_kind not in PEAK_TFLOPS


def test_peaks_are_those_of_the_data_sheets():
    """NVIDIA prints them with sparsity, twice as high, and Google per chip."""
    with_sparsity = {
        "NVIDIA H100 80GB HBM3": 1979,
        "NVIDIA H200": 1979,
        "NVIDIA B200": 4500,
        "NVIDIA H100 PCIe": 1513,
    }
    for kind, published in with_sparsity.items():
        assert PEAK_TFLOPS[kind]["bfloat16"] == published / 2
    # a 32B model on v5p reached 328 TFLOP/s a chip, which MaxText reports as 71.47 %
    assert PEAK_TFLOPS["TPU v5p"]["bfloat16"] == pytest.approx(328 / 0.7147, rel=2e-3)
    # and 120 on v5e as 61.1 %
    assert PEAK_TFLOPS["TPU v5e"]["bfloat16"] == pytest.approx(120 / 0.611, rel=1e-2)
