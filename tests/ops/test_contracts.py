"""A shape contract names the array, what was expected and what was got."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgpt.config import ExecutionConfig, ModelConfig, RequestError, RunConfig
from jaxgpt.ops.contracts import ContractError, check_floating, check_shape, check_token_ids


def test_the_letters_after_the_last_underscore_are_the_axes():
    check_shape("x_BTC", np.zeros((2, 3, 4)))
    check_shape("x_BTC", np.zeros((2, 3, 4)), B=2, T=3, C=4)
    check_shape("residual_after_BT", np.zeros((2, 3)), T=3)


@pytest.mark.parametrize(
    ("shape", "sizes", "message"),
    [
        ((2, 3), {}, "x_BTC: expected shape [B, T, C], got [2, 3]"),
        ((2, 3, 4), {"C": 8}, "x_BTC: expected shape [B, T, C=8], got [2, 3, 4]"),
        ((2, 3, 4), {"B": 2, "T": 4}, "x_BTC: expected shape [B=2, T=4, C], got [2, 3, 4]"),
    ],
)
def test_a_wrong_shape_is_refused_in_one_line(shape, sizes, message):
    with pytest.raises(ContractError) as caught:
        check_shape("x_BTC", np.zeros(shape), **sizes)
    assert str(caught.value) == message
    assert isinstance(caught.value, RequestError)


def test_a_contract_speaks_while_a_program_is_traced():
    with pytest.raises(ContractError, match=r"x_BT: expected shape \[B, T=2\], got \[1, 3\]"):
        jax.jit(lambda x: check_shape("x_BT", x, T=2))(jnp.zeros((1, 3)))


def test_whole_numbers_are_no_floating_point_numbers():
    check_floating("x", jnp.zeros(1, jnp.bfloat16))
    with pytest.raises(ContractError, match="x: expected floating-point numbers, got int32"):
        check_floating("x", jnp.zeros(1, jnp.int32))


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([[0, 1]], "ids: expected an array of token ids, got list; use np.array(ids)"),
        (np.zeros((1, 2)), "ids: expected token ids as integers, got float64; encode the text"),
        (np.zeros((1, 2), bool), "ids: expected token ids as integers, got bool"),
        (np.array([["a"]]), "ids: expected token ids as integers, got <U1"),
        (np.zeros(2, int), "ids: expected token ids of shape [B, T], got [2]; a single sequence becomes"),
        (np.zeros((1, 2, 3), int), "ids: expected token ids of shape [B, T], got [1, 2, 3]"),
    ],
)
def test_what_is_no_batch_of_token_ids_is_refused(ids, words):
    with pytest.raises(ContractError) as caught:
        check_token_ids("ids", ids)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.int64])
def test_every_whole_number_type_is_accepted(dtype):
    check_token_ids("ids", np.zeros((1, 2), dtype))


@pytest.mark.parametrize("config", [ModelConfig(), ExecutionConfig(), RunConfig()])
def test_configs_pass_through_jit_as_static_arguments(config):
    assert jax.tree.leaves(config) == []
    assert jax.jit(lambda config: config)(config) == config
