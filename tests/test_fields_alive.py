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
MODEL_FIELDS = {  # field: (another value, what it must change, in which architecture)
    "family": ("encoder", COMPUTATION, SMALL),
    "vocab_size": (13, OWN_SHAPES, SMALL),
    "context_length": (9, OWN_SHAPES, SMALL),
    "width": (24, OWN_SHAPES, SMALL),
    "layers": (3, OWN_SHAPES, SMALL),
    "encoder_layers": (1, OWN_SHAPES, SMALL.replace(family="encoder_decoder")),
    "heads": (4, OWN_SHAPES, SMALL),
    "kv_heads": (1, OWN_SHAPES, SMALL),
    "head_size": (3, OWN_SHAPES, SMALL),
    "ffn": ("relu", COMPUTATION, SMALL),
    "ffn_width": (7, OWN_SHAPES, SMALL),
    "gelu": ("tanh", COMPUTATION, SMALL),
    "norm": ("rmsnorm", COMPUTATION, SMALL),
    "norm_epsilon": (0.125, COMPUTATION, SMALL),
    "position": ("none", OWN_SHAPES, SMALL),
    "rope_theta": (20.0, COMPUTATION, ROPE),
    "rope_pairing": ("interleaved", COMPUTATION, ROPE),
    "rope_scaling": ("linear", COMPUTATION, LLAMA3.replace(rope_scaling="linear", rope_original_context=None)),
    "rope_factor": (8.0, COMPUTATION, LLAMA3),
    "rope_original_context": (64, COMPUTATION, LLAMA3),
    "rope_low_rotations": (0.5, COMPUTATION, LLAMA3),
    "rope_high_rotations": (3.0, COMPUTATION, LLAMA3),
    "rope_attention_factor": (2.0, COMPUTATION, YARN),
    "window": (2, COMPUTATION, SMALL),
    "qk_norm": (True, OWN_SHAPES, SMALL),
    "attention_bias": (False, OWN_SHAPES, SMALL),
    "attention_out_bias": (False, OWN_SHAPES, SMALL),
    "ffn_bias": (False, OWN_SHAPES, SMALL),
    "norm_bias": (False, OWN_SHAPES, SMALL),
    "head_bias": (True, OWN_SHAPES, SMALL),
    "tied_head": (False, OWN_SHAPES, SMALL),
    "logit_soft_cap": (5.0, COMPUTATION, SMALL),
    "embedding_dropout": (0.25, COMPUTATION, SMALL),
    "attention_dropout": (0.25, COMPUTATION, SMALL),
    "residual_dropout": (0.25, COMPUTATION, SMALL),
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
    assert set(EXECUTION_FIELDS) == set(ExecutionConfig.field_names())


@pytest.mark.parametrize("field", MODEL_FIELDS)
def test_a_field_of_the_architecture_changes_what_it_should(field):
    value, effect, base = MODEL_FIELDS[field]
    if field == "rope_scaling":
        base, changed = ROPE, base
    else:
        changed = base.replace(**{field: value})
    assert (shapes(changed) != shapes(base)) == (effect == OWN_SHAPES)
    assert program(changed) != program(base)


@pytest.mark.parametrize("field", CHOICES)
def test_every_choice_is_a_program_of_its_own(field):
    bases = {"rope_scaling": LLAMA3, "position": ROPE}
    own = [program(bases.get(field, SMALL).replace(**{field: choice})) for choice in CHOICES[field]]
    value, _, base = MODEL_FIELDS[field]
    programs = {*own, program(base.replace(**{field: value})), program(SMALL)}
    assert len(programs) == len(own) + 2


def test_what_would_mean_nothing_is_refused():
    for field, (owner, values) in MEANS_SOMETHING_WITH.items():
        value, _, base = MODEL_FIELDS[field]
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
