"""Taps record, replace, and refuse names that nothing has."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxgpt.config import RequestError
from jaxgpt.ops.taps import Recorder, no_tap, scoped


def test_no_tap_is_the_identity():
    x = jnp.ones(3)
    assert no_tap("x", x) is x
    assert scoped(no_tap, "blocks_0") is no_tap


def test_a_recorder_keeps_what_it_sees_under_its_scope():
    recorder, x = Recorder(), jnp.ones(3)
    assert scoped(scoped(recorder, "blocks_0"), "ffn")("pre", x) is x
    assert recorder.seen == {"blocks_0/ffn/pre": x}


def test_an_override_is_an_array_or_a_function_of_what_was_there():
    recorder = Recorder({"a": np.array([5, 6]), "b": lambda x: 2 * x})
    np.testing.assert_array_equal(recorder("a", jnp.zeros(2)), [5.0, 6.0])
    np.testing.assert_array_equal(recorder("b", jnp.ones(2)), [2.0, 2.0])
    np.testing.assert_array_equal(recorder("c", jnp.ones(2)), [1.0, 1.0])
    assert recorder.seen["a"].dtype == jnp.float32
    np.testing.assert_array_equal(recorder.seen["b"], [2.0, 2.0])
    recorder.check_all_used()


def test_an_override_of_another_shape_is_refused_rather_than_broadcast():
    with pytest.raises(RequestError) as caught:
        Recorder({"a": 0.0})("a", jnp.zeros((2, 1)))
    assert str(caught.value) == "override of 'a': expected shape [2, 1], got []"


def test_an_override_that_nothing_used_is_refused_with_the_nearest_name():
    recorder = Recorder({"logit": lambda x: x})
    recorder("logits", jnp.zeros(1))
    recorder("final_hidden", jnp.zeros(1))
    with pytest.raises(RequestError) as caught:
        recorder.check_all_used()
    assert str(caught.value) == (
        "override of unknown intermediate 'logit'; did you mean 'logits'? (there are: logits, final_hidden)"
    )
