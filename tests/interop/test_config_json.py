"""`config.json` against the architecture: every field has its place, and what has none is refused by name."""

import pytest
from foreign_models import GPT2, LLAMA

from jaxgpt import ModelConfig, RequestError
from jaxgpt.config.model import MEANS_SOMETHING_WITH
from jaxgpt.interop.architectures import ARCHITECTURES, read_config, write_config

MISTRAL = LLAMA | {"model_type": "mistral"}
QWEN2 = LLAMA | {"model_type": "qwen2"}
QWEN3 = LLAMA | {"model_type": "qwen3", "head_dim": 6}


def read(document):
    return read_config(document, pytest.fail)


def test_gpt2_s_own_file_is_its_preset():
    """The config.json that GPT-2 was published with."""
    published = {
        "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
        "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
        "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": None, "summary_first_dropout": 0.1,
        "summary_proj_to_labels": True, "summary_type": "cls_index", "summary_use_proj": True,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}, "vocab_size": 50257,
    }  # fmt: skip
    dropout = dict.fromkeys(["embedding_dropout", "attention_dropout", "residual_dropout"], 0.1)
    assert read(published) == ModelConfig.preset("gpt2", **dropout)


def test_llama_3_2_s_own_file():
    """The config.json that Llama 3.2 1B was published with (transformers 4)."""
    published = {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": 128000, "eos_token_id": 128001, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048,
        "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": False,
        "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
        "pretraining_tp": 1, "rms_norm_eps": 1e-05,
        "rope_scaling": {
            "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
            "rope_type": "llama3",
        },
        "rope_theta": 500000.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "transformers_version": "4.45.0.dev0", "use_cache": True, "vocab_size": 128256,
    }  # fmt: skip
    assert read(published) == ModelConfig(
        vocab_size=128256, context_length=131072, width=2048, layers=16, heads=32, kv_heads=8, ffn="swiglu",
        norm="rmsnorm", norm_bias=False, position="rope", rope_theta=500000.0, rope_scaling="llama3",
        rope_factor=32.0, rope_original_context=8192, attention_bias=False, attention_out_bias=False, ffn_bias=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_field_of_the_architecture_is_spoken_for_once(name):
    architecture = ARCHITECTURES[name]
    spoken = [field for entry in architecture.entries for field in entry.ours] + list(architecture.lost)
    assert len(spoken) == len(set(spoken))
    unsaid = set(ModelConfig.field_names()) - set(spoken)
    # What is unsaid means nothing: its owner has a value under which it must stay at its default.
    assert unsaid <= set(MEANS_SOMETHING_WITH)


NEEDED = {
    "gpt2": (GPT2, ["vocab_size", "n_positions", "n_embd", "n_layer", "n_head"]),
    "llama": (LLAMA, [name for name in LLAMA if name not in ("model_type", "num_key_value_heads")]),
    "mistral": (MISTRAL, ["num_key_value_heads"]),
    "qwen2": (QWEN2, ["num_key_value_heads"]),
    "qwen3": (QWEN3, ["head_dim"]),
}


@pytest.mark.parametrize(("name", "field"), [(name, field) for name in NEEDED for field in NEEDED[name][1]])
def test_a_needed_field_that_is_missing_is_named(name, field):
    document = NEEDED[name][0]
    with pytest.raises(RequestError, match=f"^{field} is missing; add it"):
        read({key: value for key, value in document.items() if key != field})
    with pytest.raises(RequestError, match=f"^{field} is null; add it"):
        read(document | {field: None})


@pytest.mark.parametrize(
    ("document", "field", "value"),
    [
        (GPT2, "scale_attn_by_inverse_layer_idx", True),
        (GPT2, "reorder_and_upcast_attn", True),
        (GPT2, "scale_attn_weights", False),
        (GPT2, "add_cross_attention", True),
        (GPT2, "activation_function", "silu"),
        (GPT2, "is_encoder_decoder", True),
        (LLAMA, "pretraining_tp", 2),
        (LLAMA, "partial_rotary_factor", 0.5),
        (LLAMA, "hidden_act", "relu"),
        (LLAMA, "sliding_window", 3),
        (LLAMA, "quantization_config", {"bits": 4}),
        (LLAMA, "attn_logit_softcapping", 50.0),
        (MISTRAL, "attention_bias", True),
        (MISTRAL, "layer_types", ["full_attention", "sliding_attention"]),
        (QWEN2, "use_mrope", True),
    ],
)
def test_a_field_that_changes_the_computation_is_refused_by_name(document, field, value):
    read(document)
    with pytest.raises(RequestError, match=f"^{field} is "):
        read(document | {field: value})


def test_a_field_that_nobody_knows_is_a_warning():
    said = []
    read_config(LLAMA | {"colour": "red", "use_cache": True, "torch_dtype": "float16"}, said.append)
    assert said == ["config.json has fields that llama does not have, they are not used: colour"]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("n_embd", "4", "model.width: expected a whole number, got '4'"),
        ("n_head", 3, "model.width 4 is not divisible by model.heads 3"),
        ("activation_function", "gelu_neu", "activation_function is 'gelu_neu'; did you mean 'gelu_new'?"),
        ("tie_word_embeddings", None, "model.tied_head: expected true or false"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(field, value, message):
    with pytest.raises(RequestError) as refusal:
        read(GPT2 | {field: value})
    assert str(refusal.value).startswith(message)


def test_biases_follow_their_fields():
    for bias in (True, False):
        config = read(LLAMA | {"attention_bias": bias, "mlp_bias": not bias})
        assert (config.attention_bias, config.attention_out_bias, config.ffn_bias) == (bias, bias, not bias)
    qwen2 = read(QWEN2)
    assert (qwen2.attention_bias, qwen2.attention_out_bias, qwen2.ffn_bias, qwen2.qk_norm) == (
        True,
        False,
        False,
        False,
    )
    assert (read(QWEN3).qk_norm, read(QWEN3).head_width) == (True, 6)


def test_a_description_that_repeats_what_follows_is_the_one_that_does_not():
    repeats = LLAMA | {"head_dim": 2, "num_key_value_heads": 4, "intermediate_size": 32}
    config = read(repeats)
    assert (config.head_size, config.kv_heads, config.ffn_width) == (None, None, None)
    assert (config.head_width, config.key_value_heads, config.hidden_width) == (2, 4, 32)


SLIDING, FULL = ["sliding_attention"] * 2, ["full_attention"] * 2


@pytest.mark.parametrize(
    ("fields", "window"),
    [
        ({}, None),
        ({"sliding_window": 3}, None),  # use_sliding_window is false where it is absent
        ({"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 0}, 3),
        ({"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 2}, None),
        ({"use_sliding_window": True, "sliding_window": None, "max_window_layers": 0}, None),
        ({"use_sliding_window": True, "max_window_layers": 0}, 4096),
        ({"use_sliding_window": True, "sliding_window": 3, "layer_types": SLIDING}, 3),
        ({"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 0, "layer_types": FULL}, None),
    ],
)
def test_windows_of_qwen(fields, window):
    assert read(QWEN2 | fields).window == window


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1},
            "max_window_layers gives the 2 layers different attention",
        ),
        ({"layer_types": [*FULL, "full_attention"]}, "layer_types gives the 2 layers different attention"),
        ({"layer_types": ["chunked_attention"] * 2}, "layer_types gives the 2 layers different attention"),
        ({"sliding_window": 3, "layer_types": SLIDING}, "layer_types has sliding_attention, but use_sliding_window"),
        ({"use_sliding_window": True, "max_window_layers": None}, "max_window_layers: expected a whole number"),
    ],
)
def test_windows_that_differ_between_layers_are_refused(fields, message):
    with pytest.raises(RequestError) as refusal:
        read(QWEN2 | fields)
    assert str(refusal.value).startswith(message)


def test_windows_of_mistral():
    assert read(MISTRAL).window == 4096  # what transformers takes where it is absent
    assert read(MISTRAL | {"sliding_window": None}).window is None
    assert read(MISTRAL | {"sliding_window": 3}).window == 3


LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 0.5, "high_freq_factor": 3.0,
    "original_max_position_embeddings": 4,
}  # fmt: skip
SCALINGS = {
    "none": ({}, {}),
    "default": ({"rope_type": "default"}, {}),
    "linear": ({"rope_type": "linear", "factor": 2.0}, {"rope_scaling": "linear", "rope_factor": 2.0}),
    "llama3": (
        LLAMA3,
        {
            "rope_scaling": "llama3", "rope_factor": 8.0, "rope_low_rotations": 0.5, "rope_high_rotations": 3.0,
            "rope_original_context": 4,
        },
    ),
    "yarn": (
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4},
        {"rope_scaling": "yarn", "rope_factor": 4.0, "rope_original_context": 4},
    ),
    "yarn with everything": (
        {
            "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4, "beta_fast": 16.0,
            "beta_slow": 2.0, "attention_factor": 1.25, "mscale": 1.0, "mscale_all_dim": 0.5, "truncate": True,
        },
        {
            "rope_scaling": "yarn", "rope_factor": 4.0, "rope_original_context": 4, "rope_high_rotations": 16.0,
            "rope_low_rotations": 2.0, "rope_attention_factor": 1.25,
        },
    ),
    "yarn without its original context": (
        {"rope_type": "yarn", "factor": 4.0},
        {"rope_scaling": "yarn", "rope_factor": 4.0, "rope_original_context": 5},
    ),
    "yarn by two scales": (  # (0.1 ln 4 + 1) / (0.05 ln 4 + 1)
        {"rope_type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 0.5},
        {
            "rope_scaling": "yarn", "rope_factor": 4.0, "rope_original_context": 5,
            "rope_attention_factor": 1.0648216,
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("form", ["transformers 4", "before 4.43", "transformers 5"])
def test_rope_in_every_form(name, form):
    theirs, ours = SCALINGS[name]
    if form == "transformers 5":
        document = {"rope_parameters": {"rope_theta": 500.0, **theirs}}
    else:
        spelt = {("type" if key == "rope_type" and form == "before 4.43" else key): v for key, v in theirs.items()}
        document = {"rope_theta": 500.0, "rope_scaling": spelt or None}
    config = read(LLAMA | document)
    assert config.rope_theta == 500.0
    for field, value in ours.items():
        assert getattr(config, field) == (pytest.approx(value, rel=1e-7) if isinstance(value, float) else value)
    assert config == read(LLAMA).replace(rope_theta=500.0, **{field: getattr(config, field) for field in ours})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
            "rope_scaling of type 'dynamic': jaxgpt has default, li",
        ),
        ({"rope_parameters": {"rope_type": "longrope"}}, "rope_parameters of type 'longrope': jaxgpt has"),
        ({"rope_scaling": {"type": "liner", "factor": 2.0}}, "rope_scaling of type 'liner'; did you mean 'linear'?"),
        ({"rope_scaling": {"type": "linear"}}, "rope_scaling of type linear lacks factor"),
        (
            {"rope_parameters": {key: value for key, value in LLAMA3.items() if key != "low_freq_factor"}},
            "rope_parameters of type llama3 lacks low_freq_factor",
        ),
        (
            {"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "truncate": False}},
            "rope_parameters of type yarn has truncate",
        ),
        (
            {"rope_parameters": {"rope_type": "default", "mrope_section": [1, 2]}},
            "rope_parameters of type default has mrope_section",
        ),
        (
            {"rope_parameters": {"partial_rotary_factor": 0.5}},
            "rope_parameters of type default has partial_rotary_fac",
        ),
        ({"rope_parameters": {"full_attention": {"rope_theta": 5}}}, "rope_parameters differs between layers"),
        (
            {"rope_theta": 5.0, "rope_parameters": {"rope_theta": 6.0}},
            "rope_theta is 5.0 beside rope_parameters and 6.0",
        ),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"rope_theta": 5.0}},
            "rope_parameters and rope_scaling are both given",
        ),
        ({"rope_scaling": "linear"}, "rope_scaling: expected an object or null, got 'linear'"),
    ],
)
def test_a_rotation_that_jaxgpt_does_not_have_is_refused_by_name(fields, message):
    with pytest.raises(RequestError) as refusal:
        read(LLAMA | fields)
    assert str(refusal.value).startswith(message)


HELD = ModelConfig(vocab_size=7, context_length=5, width=8, layers=2, heads=4)
LLAMA_LIKE = HELD.replace(
    norm="rmsnorm", norm_bias=False, position="rope", ffn="swiglu", attention_bias=False, attention_out_bias=False,
    ffn_bias=False,
)  # fmt: skip
WRITTEN = {
    "gpt2": [HELD, HELD.replace(gelu="tanh", ffn_width=3), HELD.replace(ffn="relu", tied_head=False)],
    "llama": [
        LLAMA_LIKE,
        LLAMA_LIKE.replace(kv_heads=2, ffn_width=3, head_size=6, ffn="geglu"),
        LLAMA_LIKE.replace(attention_bias=True, attention_out_bias=True, ffn_bias=True, ffn="geglu", gelu="tanh"),
        LLAMA_LIKE.replace(rope_scaling="linear", rope_factor=2.0, rope_theta=5.0),
        LLAMA_LIKE.replace(rope_scaling="llama3", rope_factor=2.0, rope_original_context=3, rope_low_rotations=0.5),
        LLAMA_LIKE.replace(rope_scaling="yarn", rope_factor=2.0, rope_original_context=3, rope_high_rotations=9.0),
        LLAMA_LIKE.replace(rope_scaling="yarn", rope_factor=2.0, rope_original_context=3, rope_attention_factor=1.5),
    ],
    "mistral": [LLAMA_LIKE.replace(window=3), LLAMA_LIKE.replace(width=9, head_size=2)],
    "qwen2": [LLAMA_LIKE.replace(attention_bias=True), LLAMA_LIKE.replace(attention_bias=True, window=3)],
    "qwen3": [LLAMA_LIKE.replace(qk_norm=True), LLAMA_LIKE.replace(qk_norm=True, window=3, head_size=6)],
}


@pytest.mark.parametrize(
    ("name", "config"), [(name, config) for name, configs in WRITTEN.items() for config in configs]
)
def test_what_is_written_reads_as_the_same_architecture(name, config):
    architecture, document = write_config(config, pytest.fail)
    assert (architecture.name, document["model_type"]) == (name, name)
    assert read(document) == config


@pytest.mark.parametrize(
    ("config", "nearest", "fields"),
    [
        (HELD.replace(position="sinusoidal"), "gpt2", "model.position sinusoidal"),
        (HELD.replace(position="none"), "gpt2", "model.position none"),
        (HELD.replace(head_bias=True), "gpt2", "model.head_bias true"),
        (HELD.replace(family="encoder"), "gpt2", "model.family encoder"),
        (HELD.replace(logit_soft_cap=30.0), "gpt2", "model.logit_soft_cap 30.0"),
        (HELD.replace(norm_bias=False), "gpt2", "model.norm_bias false"),
        (HELD.replace(attention_bias=False), "gpt2", "model.attention_bias false"),
        (HELD.replace(kv_heads=2), "gpt2", "model.kv_heads 2"),
        (HELD.replace(window=3, qk_norm=True), "gpt2", "model.window 3, model.qk_norm true"),
        (LLAMA_LIKE.replace(ffn="relu"), "llama", "model.ffn relu"),
        (LLAMA_LIKE.replace(position="learned"), "llama", "model.position learned"),
        (LLAMA_LIKE.replace(norm="layernorm"), "llama", "model.norm layernorm"),
        (LLAMA_LIKE.replace(attention_out_bias=True), "llama", "model.attention_out_bias true"),
        (LLAMA_LIKE.replace(ffn_bias=True, window=3), "llama", "model.window 3"),
        (LLAMA_LIKE.replace(ffn_bias=True, qk_norm=True), "llama", "model.qk_norm true"),
        (LLAMA_LIKE.replace(ffn_bias=True, width=9, head_size=2), "llama", "model.head_size 2"),
    ],
)
def test_an_architecture_that_no_layout_holds_is_refused_by_its_fields(config, nearest, fields):
    with pytest.raises(RequestError) as refusal:
        write_config(config, pytest.fail)
    assert str(refusal.value) == (
        f"no Hugging Face layout holds this architecture; the nearest, {nearest}, cannot express {fields}"
    )


def test_what_only_training_uses_is_lost_with_a_warning():
    said = []
    dropout = {"embedding_dropout": 0.25, "attention_dropout": 0.5}
    assert write_config(LLAMA_LIKE.replace(**dropout), said.append)[1]["attention_dropout"] == 0.5
    assert said == ["llama has no field for model.embedding_dropout 0.25; only training uses it"]
    document = write_config(HELD.replace(**dropout), pytest.fail)[1]
    assert (document["embd_pdrop"], document["attn_pdrop"], document["resid_pdrop"]) == (0.25, 0.5, 0.0)
