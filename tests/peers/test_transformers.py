"""The same weights in transformers and here: logits, gradients and one step of two optimizers, in both directions."""

import logging
import warnings
from pathlib import Path

import jax
import numpy as np
import optax
import pytest
from peering import assert_close, peer

from jaxgpt.interop.hugging_face import export, read_folder
from jaxgpt.model.functional import apply, loss
from jaxgpt.model.parameters import decay_mask

pytestmark = pytest.mark.ci
torch = peer("torch")
transformers = peer("transformers")

T = 24
SIZES = {
    "vocab_size": 29, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": T,
}  # fmt: skip
GPT2_SIZES = {
    "vocab_size": 29, "n_positions": T, "n_embd": 24, "n_layer": 2, "n_head": 4,
    "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
}  # fmt: skip
ORIGINAL = 8  # context before stretching; the ids reach three times as far


def scaled(**scaling):
    return {"rope_parameters": {"rope_theta": 50.0, **scaling}}


CASES = {
    "gpt2": ("gpt2", GPT2_SIZES | {"activation_function": "gelu"}),
    "gpt2 untied, tanh, narrow": ("gpt2", GPT2_SIZES | {"tie_word_embeddings": False, "n_inner": 40}),
    "gpt2 relu": ("gpt2", GPT2_SIZES | {"activation_function": "relu", "layer_norm_epsilon": 0.1}),
    "llama tied": ("llama", SIZES | {"tie_word_embeddings": True, "rms_norm_eps": 0.1}),
    "llama untied, biases": ("llama", SIZES | {"attention_bias": True, "mlp_bias": True}),
    "llama head_dim, gelu": ("llama", SIZES | {"head_dim": 10, "hidden_act": "gelu", "num_key_value_heads": 4}),
    "llama linear": ("llama", SIZES | scaled(rope_type="linear", factor=3.0)),
    "llama llama3": (
        "llama",
        SIZES
        | scaled(
            rope_type="llama3", factor=3.0, low_freq_factor=0.25, high_freq_factor=1.0,
            original_max_position_embeddings=ORIGINAL,
        ),
    ),
    "llama yarn": (
        "llama",
        SIZES
        | {"head_dim": 16}
        | scaled(
            rope_type="yarn", factor=3.0, beta_fast=1.0, beta_slow=0.1, original_max_position_embeddings=ORIGINAL
        ),
    ),
    "llama yarn, attention_factor": (
        "llama",
        SIZES | scaled(rope_type="yarn", factor=3.0, attention_factor=1.5, original_max_position_embeddings=ORIGINAL),
    ),
    "mistral window": ("mistral", SIZES | {"sliding_window": 5}),
    "mistral, odd heads": ("mistral", SIZES | {"hidden_size": 26, "head_dim": 8, "sliding_window": None}),
    "qwen2": ("qwen2", SIZES | {"tie_word_embeddings": True}),
    "qwen2 window": ("qwen2", SIZES | {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 0}),
    "qwen3": ("qwen3", SIZES | {"head_dim": 10}),
    "qwen3 window, biases": (
        "qwen3",
        SIZES
        | {"head_dim": 6, "attention_bias": True}
        | {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 0},
    ),
}  # fmt: skip


@pytest.fixture
def _nothing_is_said():
    """transformers says nothing while it reads our folder, neither as a warning nor in its log."""
    records = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = records.append
    logger = logging.getLogger("transformers")
    logger.addHandler(handler)
    with warnings.catch_warnings(action="error"):
        yield
    logger.removeHandler(handler)
    assert [record.getMessage() for record in records] == []


def small_model(name):
    """A transformers model whose parameters are all random, biases and norms too."""
    model_type, settings = CASES[name]
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(model_type, **settings)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            middle = 1.0 if "norm" in key or (".ln_" in key and key.endswith("weight")) else 0.0
            parameter.copy_(middle + 0.2 * torch.randn_like(parameter))
    return model


def saved(model, folder):
    """What the reader makes of a transformers model's folder."""
    model.save_pretrained(folder)
    return read_folder(Path(folder), pytest.fail)


def reopened(folder):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", output_loading_info=True
    )
    assert not any(info.values()), info
    return model.eval()


def random_ids(length=T + 1, batch=2):
    return np.random.default_rng(0).integers(0, 29, (batch, length))


def their_logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor(ids)).logits.numpy()


def their_gradient(model, ids, folder):
    """Their gradient as a tree: written over the parameters of a model and read like one."""
    model.zero_grad()
    logits = model(torch.tensor(ids[:, :-1])).logits
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(ids[:, 1:]).flatten()).backward()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.grad)
    gradient = saved(model, folder).params
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), before, strict=True):
            parameter.copy_(value)
    return gradient


def our_gradient(config, params, ids):
    batch = {"token_ids_BT": ids[:, :-1], "target_ids_BT": ids[:, 1:], "weights_BT": np.ones_like(ids[:, 1:])}
    return jax.grad(lambda p: loss(config, p, batch)[0])(params)


def their_step(model, optimizer, folder):
    """Their parameters after one step with the gradient they hold; the model is put back."""
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer.step()
    stepped = saved(model, folder).params
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), before, strict=True):
            parameter.copy_(value)
    return stepped


def our_step(optimizer, params, gradient):
    updates, _ = optimizer.update(gradient, optimizer.init(params), params)
    return optax.apply_updates(params, updates)


@pytest.mark.parametrize("name", CASES)
def test_their_model_gives_their_numbers_here(name, tmp_path):
    model = small_model(name)
    config, params, _, source = saved(model, tmp_path / "in")
    assert CASES[name][0] in source
    ids = random_ids()
    assert_close(apply(config, params, ids[:, :-1]), their_logits(model, ids[:, :-1]), 1e-4)

    gradient = our_gradient(config, params, ids)
    assert_close(gradient, their_gradient(model, ids, tmp_path / "gradient"), 1e-5)

    sgd = torch.optim.SGD(model.parameters(), lr=0.5)
    assert_close(our_step(optax.sgd(0.5), params, gradient), their_step(model, sgd, tmp_path / "sgd"), 1e-5)

    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    theirs = their_step(model, torch.optim.AdamW(groups, lr=0.01, eps=1e-3), tmp_path / "adamw")
    ours = optax.adamw(0.01, eps=1e-3, weight_decay=0.1, mask=decay_mask(config))
    assert_close(our_step(ours, params, gradient), theirs, 1e-5)


@pytest.fixture(scope="module", params=CASES)
def read(request, tmp_path_factory):
    """(config, params) of each case."""
    return saved(small_model(request.param), tmp_path_factory.mktemp("in"))[:2]


@pytest.mark.usefixtures("_nothing_is_said")
def test_our_folder_gives_the_same_numbers_there(read, tmp_path):
    export(tmp_path / "out", *read, None, warn=pytest.fail)
    ids = random_ids(T)
    assert_close(their_logits(reopened(tmp_path / "out"), ids), apply(*read, ids), 1e-4)


def test_in_out_in_keeps_every_bit_and_out_in_out_every_byte(read, tmp_path):
    config, params = read
    export(tmp_path / "out", config, params, None, warn=pytest.fail)
    again = read_folder(tmp_path / "out", pytest.fail)
    assert again.config == config
    assert jax.tree.structure(again.params) == jax.tree.structure(params)
    for one, other in zip(jax.tree.leaves(again.params), jax.tree.leaves(params), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    export(tmp_path / "out2", again.config, again.params, None, warn=pytest.fail)
    for file in (tmp_path / "out").iterdir():
        assert file.read_bytes() == (tmp_path / "out2" / file.name).read_bytes()
