"""Every field of the architecture and of the execution is alive: changing it changes shapes or the computation."""

import functools

import jax
import numpy as np
import pytest
from small_models import SMALL, random_batch

import jaxgpt
from jaxgpt import ExecutionConfig, ModelConfig, RequestError
from jaxgpt.config.model import MEANS_SOMETHING_WITH
from jaxgpt.model.parameters import abstract_parameters

OWN_SHAPES, COMPUTATION = "shapes", "computation"
ROPE = SMALL.replace(position="rope", head_size=8)
LLAMA3 = ROPE.replace(rope_scaling="llama3", rope_factor=4.0, rope_original_context=16)
YARN = LLAMA3.replace(rope_scaling="yarn")
ENCODER_DECODER = SMALL.replace(family="encoder_decoder")
MODEL_FIELDS = {  # field: (an architecture, the same with another value, what that must change)
    "family": (SMALL, SMALL.replace(family="encoder"), COMPUTATION),
    "vocab_size": (SMALL, SMALL.replace(vocab_size=13), OWN_SHAPES),
    "context_length": (SMALL, SMALL.replace(context_length=9), OWN_SHAPES),
    "width": (SMALL, SMALL.replace(width=24), OWN_SHAPES),
    "layers": (SMALL, SMALL.replace(layers=3), OWN_SHAPES),
    "encoder_layers": (ENCODER_DECODER, ENCODER_DECODER.replace(encoder_layers=1), OWN_SHAPES),
    "heads": (SMALL, SMALL.replace(heads=4), OWN_SHAPES),
    "kv_heads": (SMALL, SMALL.replace(kv_heads=1), OWN_SHAPES),
    "head_size": (SMALL, SMALL.replace(head_size=3), OWN_SHAPES),
    "ffn": (SMALL, SMALL.replace(ffn="relu"), COMPUTATION),
    "ffn_width": (SMALL, SMALL.replace(ffn_width=7), OWN_SHAPES),
    "gelu": (SMALL, SMALL.replace(gelu="tanh"), COMPUTATION),
    "norm": (SMALL, SMALL.replace(norm="rmsnorm"), COMPUTATION),
    "norm_epsilon": (SMALL, SMALL.replace(norm_epsilon=0.125), COMPUTATION),
    "position": (SMALL, SMALL.replace(position="none"), OWN_SHAPES),
    "rope_theta": (ROPE, ROPE.replace(rope_theta=20.0), COMPUTATION),
    "rope_pairing": (ROPE, ROPE.replace(rope_pairing="interleaved"), COMPUTATION),
    "rope_scaling": (ROPE, ROPE.replace(rope_scaling="linear", rope_factor=4.0), COMPUTATION),
    "rope_factor": (LLAMA3, LLAMA3.replace(rope_factor=8.0), COMPUTATION),
    "rope_original_context": (LLAMA3, LLAMA3.replace(rope_original_context=64), COMPUTATION),
    "rope_low_rotations": (LLAMA3, LLAMA3.replace(rope_low_rotations=0.5), COMPUTATION),
    "rope_high_rotations": (LLAMA3, LLAMA3.replace(rope_high_rotations=3.0), COMPUTATION),
    "rope_attention_factor": (YARN, YARN.replace(rope_attention_factor=2.0), COMPUTATION),
    "window": (SMALL, SMALL.replace(window=2), COMPUTATION),
    "qk_norm": (SMALL, SMALL.replace(qk_norm=True), OWN_SHAPES),
    "attention_bias": (SMALL, SMALL.replace(attention_bias=False), OWN_SHAPES),
    "attention_out_bias": (SMALL, SMALL.replace(attention_out_bias=False), OWN_SHAPES),
    "ffn_bias": (SMALL, SMALL.replace(ffn_bias=False), OWN_SHAPES),
    "norm_bias": (SMALL, SMALL.replace(norm_bias=False), OWN_SHAPES),
    "head_bias": (SMALL, SMALL.replace(head_bias=True), OWN_SHAPES),
    "tied_head": (SMALL, SMALL.replace(tied_head=False), OWN_SHAPES),
    "logit_soft_cap": (SMALL, SMALL.replace(logit_soft_cap=5.0), COMPUTATION),
    "embedding_dropout": (SMALL, SMALL.replace(embedding_dropout=0.25), COMPUTATION),
    "attention_dropout": (SMALL, SMALL.replace(attention_dropout=0.25), COMPUTATION),
    "residual_dropout": (SMALL, SMALL.replace(residual_dropout=0.25), COMPUTATION),
}
CHOICES = {  # choices beyond the one that a row above takes
    "family": ("encoder_decoder",),
    "ffn": ("swiglu", "geglu"),
    "position": ("rope", "sinusoidal"),
    "rope_scaling": ("llama3", "yarn"),
}
EXECUTION_FIELDS = {"compute_dtype": "bfloat16", "attention": "reference", "remat": True}


def shapes(config):
    return jax.tree.map(lambda leaf: leaf.shape, abstract_parameters(config), is_leaf=lambda x: hasattr(x, "shape"))


@functools.cache
def program(config=SMALL, execution=None):
    """The traced loss, with a dropout key, over the config's own parameters."""

    def loss(params, key):
        batch = random_batch(SMALL)
        if config.family == "encoder_decoder":
            batch |= {"source_ids_BS": batch["token_ids_BT"]}
        return jaxgpt.loss(config, params, batch, dropout_key=key, execution=execution)

    closed = jax.make_jaxpr(loss)(abstract_parameters(config), jax.random.key(0))
    return str(closed) + str([np.asarray(constant).tobytes() for constant in closed.consts])


def test_every_field_of_the_architecture_has_its_row():
    assert set(MODEL_FIELDS) == set(ModelConfig.field_names())


def test_every_field_of_the_execution_has_its_row():
    assert {*EXECUTION_FIELDS, "platform"} == set(ExecutionConfig.field_names())


def test_the_platform_decides_which_attention_is_compiled():
    config = SMALL.replace(context_length=512, attention_dropout=0.0)
    ids = jax.ShapeDtypeStruct((1, 512), "int32")

    def traced(platform):
        execution = ExecutionConfig(platform=platform)
        forward = functools.partial(jaxgpt.apply, config, execution=execution)
        return str(jax.make_jaxpr(forward)(abstract_parameters(config), ids))

    assert traced("auto") == traced(jax.default_backend())
    assert traced("cpu") != traced("gpu")


@pytest.mark.parametrize("field", MODEL_FIELDS)
def test_a_field_of_the_architecture_changes_what_it_should(field):
    base, changed, effect = MODEL_FIELDS[field]
    assert getattr(changed, field) != getattr(base, field)
    assert (shapes(changed) != shapes(base)) == (effect == OWN_SHAPES)
    assert program(changed) != program(base)


@pytest.mark.parametrize("field", CHOICES)
def test_every_choice_is_a_program_of_its_own(field):
    bases = {"rope_scaling": LLAMA3, "position": ROPE}
    own = [program(bases.get(field, SMALL).replace(**{field: choice})) for choice in CHOICES[field]]
    programs = {*own, program(MODEL_FIELDS[field][1]), program(SMALL)}
    assert len(programs) == len(own) + 2


def test_what_would_mean_nothing_is_refused():
    for field, (owner, values) in MEANS_SOMETHING_WITH.items():
        base, changed, _ = MODEL_FIELDS[field]
        value = getattr(changed, field)
        with pytest.raises(RequestError, match=f"model.{field} .* means nothing with model.{owner}"):
            SMALL.replace(**{field: value}, **({"ffn": "relu"} if field == "gelu" else {}))
        assert getattr(base, owner) in values


@pytest.mark.parametrize("field", EXECUTION_FIELDS)
def test_a_field_of_the_execution_changes_the_computation_only(field):
    changed = ExecutionConfig(**{field: EXECUTION_FIELDS[field]})
    assert program(execution=changed) != program()


def test_the_same_configs_trace_the_same_program():
    """Otherwise the tests above could not fail."""
    first = program()
    program.cache_clear()
    assert first == program() == program(SMALL.replace(width=12), ExecutionConfig())


def test_a_fields_default_spelt_out_is_the_default():
    assert shapes(SMALL.replace(ffn_width=48)) == shapes(SMALL)
    assert program(execution=ExecutionConfig(attention="dense")) == program()


def test_the_context_length_bounds_the_sequence():
    short = SMALL.replace(context_length=3)
    with pytest.raises(jaxgpt.RequestError, match=r"has 6 positions, but model.context_length is 3"):
        jaxgpt.apply(short, jaxgpt.init(short, key=jax.random.key(0)), np.zeros((1, 6), int))
