"""Every field of the architecture and of the execution is alive: changing it changes shapes or the computation."""

import functools

import jax
import numpy as np
import pytest
from small_models import SMALL, random_batch

import jaxgpt
from jaxgpt import ExecutionConfig, ModelConfig
from jaxgpt.model.parameters import abstract_parameters

OWN_SHAPES, COMPUTATION = "shapes", "computation"
MODEL_FIELDS = {  # field: (another value, what it must change)
    "vocab_size": (13, OWN_SHAPES),
    "context_length": (9, OWN_SHAPES),
    "width": (24, OWN_SHAPES),
    "layers": (3, OWN_SHAPES),
    "heads": (4, OWN_SHAPES),
    "ffn_width": (7, OWN_SHAPES),
    "gelu": ("tanh", COMPUTATION),
    "norm_epsilon": (0.125, COMPUTATION),
    "position": ("none", OWN_SHAPES),
    "attention_bias": (False, OWN_SHAPES),
    "attention_out_bias": (False, OWN_SHAPES),
    "ffn_bias": (False, OWN_SHAPES),
    "norm_bias": (False, OWN_SHAPES),
    "head_bias": (True, OWN_SHAPES),
    "tied_head": (False, OWN_SHAPES),
    "embedding_dropout": (0.25, COMPUTATION),
    "attention_dropout": (0.25, COMPUTATION),
    "residual_dropout": (0.25, COMPUTATION),
}
EXECUTION_FIELDS = {"compute_dtype": "bfloat16", "attention": "reference", "remat": True}


def shapes(config):
    return jax.tree.map(lambda leaf: leaf.shape, abstract_parameters(config), is_leaf=lambda x: hasattr(x, "shape"))


@functools.cache
def program(config=SMALL, execution=None):
    """The traced loss, with a dropout key, over the config's own parameters."""

    def loss(params, key):
        return jaxgpt.loss(config, params, random_batch(SMALL), dropout_key=key, execution=execution)

    return str(jax.make_jaxpr(loss)(abstract_parameters(config), jax.random.key(0)))


def test_every_field_of_the_architecture_has_its_row():
    assert set(MODEL_FIELDS) == set(ModelConfig.field_names())


def test_every_field_of_the_execution_has_its_row():
    assert set(EXECUTION_FIELDS) == set(ExecutionConfig.field_names())


@pytest.mark.parametrize("field", MODEL_FIELDS)
def test_a_field_of_the_architecture_changes_what_it_should(field):
    value, effect = MODEL_FIELDS[field]
    changed = SMALL.replace(**{field: value})
    assert (shapes(changed) != shapes(SMALL)) == (effect == OWN_SHAPES)
    assert program(changed) != program()


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
