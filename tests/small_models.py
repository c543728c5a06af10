"""Small architectures, parameters with no zero among them, and batches, for tests of the model."""

import numpy as np

from jaxgpt import ModelConfig
from jaxgpt.model.parameters import map_specs
from jaxgpt.model.specs import parameter_specs

SMALL = ModelConfig(vocab_size=11, context_length=6, width=12, layers=2, heads=3)

ARCHITECTURES = {
    "gpt2-like": SMALL.replace(gelu="tanh"),
    "exact gelu, bias on the tied head": SMALL.replace(head_bias=True),
    "own head, narrow network, one head": SMALL.replace(tied_head=False, head_bias=True, ffn_width=5, heads=1),
    "no biases, no positions": SMALL.replace(
        attention_bias=False, attention_out_bias=False, ffn_bias=False, norm_bias=False, position="none"
    ),
    "heads of one feature, large epsilon": SMALL.replace(heads=12, layers=1, norm_epsilon=0.5),
    "llama-like": SMALL.replace(
        position="rope", rope_theta=500.0, norm="rmsnorm", ffn="swiglu", ffn_width=20, heads=6, kv_heads=2,
        attention_bias=False, attention_out_bias=False, ffn_bias=False, norm_bias=False, tied_head=False,
    ),
    "interleaved rope, one key head, wide heads, window, qk norm": SMALL.replace(
        position="rope", rope_pairing="interleaved", kv_heads=1, head_size=8, window=3, qk_norm=True, layers=1
    ),
    "sines, geglu by tanh, rms norm with bias, soft cap": SMALL.replace(
        position="sinusoidal", ffn="geglu", gelu="tanh", norm="rmsnorm", logit_soft_cap=2.0
    ),
    "encoder with relu and a window": SMALL.replace(family="encoder", ffn="relu", window=2),
    "encoder_decoder": SMALL.replace(family="encoder_decoder", encoder_layers=1, heads=4, kv_heads=2),
    "encoder_decoder with rope": SMALL.replace(
        family="encoder_decoder", layers=1, position="rope", heads=2, norm="rmsnorm", qk_norm=True, window=4
    ),
}  # fmt: skip


def random_parameters(config, seed=0, spread=0.3):
    """Parameters of the right tree whose biases and scales are random too, so that none can be forgotten."""
    rng = np.random.default_rng(seed)
    return map_specs(
        lambda _, spec: (spec.init.mean + spread * rng.standard_normal(spec.shape)).astype(np.float32),
        parameter_specs(config),
    )


def random_ids(config, batch=2, length=None, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, config.vocab_size, (batch, length or config.context_length))


def random_inputs(config, seed=0):
    """Ids, padding on both sides of different rows, and a padded source where the family reads one."""
    ids = random_ids(config, batch=3, seed=seed)
    mask = np.ones(ids.shape, bool)
    mask[1, :2] = mask[2, -1:] = False
    inputs = {"token_ids_BT": ids, "mask_BT": mask}
    if config.family == "encoder_decoder":
        source_mask = np.ones((3, 5), bool)
        source_mask[0, 3:] = source_mask[1, :1] = False
        inputs |= {"source_ids_BS": random_ids(config, 3, 5, seed + 1), "source_mask_BS": source_mask}
    return inputs


def random_batch(config, batch=2, length=None, seed=0):
    """A batch in which some positions do not count."""
    ids = random_ids(config, batch, (length or config.context_length) + 1, seed)
    weights = (np.random.default_rng(seed + 1).random((batch, ids.shape[1] - 1)) < 0.7).astype(np.float32)
    weights[0, 0] = 1
    return {"token_ids_BT": ids[:, :-1], "target_ids_BT": ids[:, 1:], "weights_BT": weights}
