"""The same weights in PyTorch's own Transformer and here: logits and the gradient of every parameter.

What PyTorch's module lacks (embeddings, positions, vocabulary head) is written out from the same arrays.
"""

import jax
import numpy as np
import pytest
from peering import assert_close, peer
from small_models import SMALL, random_ids, random_parameters

from jaxgpt.model.functional import apply, inputs_of, loss
from jaxgpt.runs.trees import named_leaves, nested

pytestmark = pytest.mark.ci
torch = peer("torch")

BOTH = SMALL.replace(family="encoder_decoder")
CASES = {
    "encoder, relu": SMALL.replace(family="encoder", ffn="relu", layers=3),
    "encoder, gelu": SMALL.replace(family="encoder", ffn_width=20, norm_epsilon=0.1, tied_head=False, head_bias=True),
    "encoder_decoder, relu": BOTH.replace(ffn="relu", encoder_layers=3, norm_epsilon=0.1, head_bias=True),
    "encoder_decoder, gelu": BOTH.replace(ffn_width=20, encoder_layers=1, tied_head=False),
}


def batch_of(config):
    """Rows with a gap, which causal order does not hide, and with padding on either side of the source."""
    ids = random_ids(config, batch=3, length=7)
    real = np.ones((3, 6), bool)
    real[1, 1:3] = real[2, 4:] = False
    batch = {"token_ids_BT": ids[:, :-1], "target_ids_BT": ids[:, 1:], "weights_BT": real * 1.0, "mask_BT": real}
    if config.family == "encoder":
        return batch
    source_mask = np.ones((3, 5), bool)
    source_mask[0, 3:] = source_mask[1, :1] = False
    return batch | {"source_ids_BS": random_ids(config, 3, 5, seed=1), "source_mask_BS": source_mask}


def leaves(params):
    """Each of our parameters, by path, as a leaf of PyTorch's graph in float64."""
    named = named_leaves(params)
    return {path: torch.tensor(leaf, dtype=torch.double, requires_grad=True) for path, leaf in named.items()}


def linear(name, ours):
    return {f"{name}.weight": ours["kernel"].T, f"{name}.bias": ours["bias"]}


def norm(name, ours):
    return {f"{name}.weight": ours["scale"], f"{name}.bias": ours["bias"]}


def attention(name, ours):
    """PyTorch keeps the three projections in one matrix, outputs first."""
    kernels = [ours[part]["kernel"].flatten(1).T for part in "qkv"]
    biases = [ours[part]["bias"].flatten() for part in "qkv"]
    out = {"kernel": ours["out"]["kernel"].flatten(0, 1), "bias": ours["out"]["bias"]}
    packed = {f"{name}.in_proj_weight": torch.cat(kernels), f"{name}.in_proj_bias": torch.cat(biases)}
    return packed | linear(f"{name}.out_proj", out)


def block(name, ours):
    """One layer; PyTorch numbers its norms in the order of their use."""
    named = attention(f"{name}.self_attn", ours["attention"])
    named |= linear(f"{name}.linear1", ours["ffn"]["up"]) | linear(f"{name}.linear2", ours["ffn"]["down"])
    norms = ["ln1", "ln2"]
    if "cross_attention" in ours:
        named |= attention(f"{name}.multihead_attn", ours["cross_attention"])
        norms.insert(1, "ln_cross")
    for number, ln in enumerate(norms, start=1):
        named |= norm(f"{name}.norm{number}", ours[ln])
    return named


def stack(name, ours, layers):
    named = norm(f"{name}norm", ours["final_norm"])
    for i in range(layers):
        named |= block(f"{name}layers.{i}", ours[f"blocks_{i}"])
    return named


def layer_options(config):
    return {
        "d_model": config.width, "nhead": config.heads, "dim_feedforward": config.hidden_width, "dropout": 0.0,
        "activation": config.ffn, "layer_norm_eps": config.norm_epsilon, "batch_first": True, "norm_first": True,
        "dtype": torch.double,
    }  # fmt: skip


def their_encoder(config):
    layer = torch.nn.TransformerEncoderLayer(**layer_options(config))
    last = torch.nn.LayerNorm(config.width, eps=config.norm_epsilon, dtype=torch.double)
    return torch.nn.TransformerEncoder(layer, config.blocks_in_encoder, last, enable_nested_tensor=False)


def embedded(ids, mask, embedding, positions):
    """Token and position vectors; positions count real tokens only."""
    index = torch.tensor(np.maximum(np.cumsum(mask, axis=1) - 1, 0))
    return torch.nn.functional.embedding(torch.tensor(ids), embedding) + positions[index]


def encoded(config, ours, batch):
    """The final hidden states by torch.nn.TransformerEncoder."""
    mask = batch["mask_BT"]
    x = embedded(batch["token_ids_BT"], mask, ours["token_embedding"], ours["position_embedding"])
    weights = stack("", ours, config.layers)
    options = {"src_key_padding_mask": torch.tensor(~mask)}
    return torch.func.functional_call(their_encoder(config), weights, (x,), options, strict=True)


def decoded(config, ours, batch):
    """The final hidden states by torch.nn.Transformer."""
    encoder, embedding = ours["encoder"], ours["token_embedding"]
    mask, source_mask = batch["mask_BT"], batch["source_mask_BS"]
    source = embedded(batch["source_ids_BS"], source_mask, embedding, encoder["position_embedding"])
    target = embedded(batch["token_ids_BT"], mask, embedding, ours["position_embedding"])
    options = layer_options(config) | {"num_decoder_layers": config.layers, "custom_encoder": their_encoder(config)}
    weights = stack("encoder.", encoder, config.blocks_in_encoder) | stack("decoder.", ours, config.layers)
    masks = {
        "tgt_mask": torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1),
        "src_key_padding_mask": torch.tensor(~source_mask),
        "memory_key_padding_mask": torch.tensor(~source_mask),
        "tgt_key_padding_mask": torch.tensor(~mask),
    }
    return torch.func.functional_call(torch.nn.Transformer(**options), weights, (source, target), masks, strict=True)


def their_logits(config, ours, batch):
    hidden = (encoded if config.family == "encoder" else decoded)(config, ours, batch)
    head = ours.get("lm_head", {})
    return hidden @ head.get("kernel", ours["token_embedding"].T) + head.get("bias", 0.0)


@pytest.mark.parametrize("name", CASES)
def test_pytorchs_module_gives_our_logits_and_gradients(name):
    config = CASES[name]
    params, batch = random_parameters(config), batch_of(config)
    real = batch["mask_BT"]
    named = leaves(params)
    logits = their_logits(config, nested(named), batch)[torch.tensor(real)]
    assert_close(apply(config, params, **inputs_of(batch))[real], logits.detach().numpy(), 1e-5)

    torch.nn.functional.cross_entropy(logits, torch.tensor(batch["target_ids_BT"][real])).backward()
    assert [path for path, leaf in named.items() if leaf.grad is None] == []
    gradient = jax.grad(lambda p: loss(config, p, batch)[0])(params)
    assert_close(gradient, nested({path: leaf.grad.numpy() for path, leaf in named.items()}), 1e-5)
