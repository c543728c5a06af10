"""Names, content hashes and differences of trees of arrays."""

from __future__ import annotations

import hashlib

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgpt.runs.trees import content_hash, differences, named_leaves, nested, signatures


def test_content_hash_is_sha256_of_dtype_shape_and_bytes():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = hashlib.sha256(b"float32[2, 3]" + array.tobytes()).hexdigest()
    assert content_hash(array) == expected
    assert content_hash(np.asfortranarray(array)) == expected


def test_content_hash_sees_what_equality_does_not():
    zero = np.zeros(4, np.float32)
    others = [-zero, zero.reshape(2, 2), zero.view(np.int32), np.zeros(8, jnp.bfloat16)]
    assert len({content_hash(x) for x in [zero, *others]}) == 5
    assert content_hash(np.int32(2**24)) != content_hash(np.int32(2**24 + 1))


def test_names_follow_dicts_named_tuples_and_indices():
    state = optax.adam(1e-3).init({"w": jnp.ones(2)})
    assert list(named_leaves(state)) == ["0/count", "0/mu/w", "0/nu/w"]
    assert list(named_leaves(jnp.ones(2))) == ["value"]


def test_two_leaves_of_one_name_are_refused():
    with pytest.raises(ValueError, match="must not contain '/'"):
        named_leaves({"a/b": 1, "a": {"b": 2}})


names = st.text("abc_0", min_size=1, max_size=3)
trees = st.recursive(st.integers(), lambda inner: st.dictionaries(names, inner, min_size=1, max_size=3))


@settings(deadline=None, max_examples=30)
@given(st.dictionaries(names, trees, min_size=1, max_size=3))
def test_nested_undoes_named_leaves(tree):
    assert nested(named_leaves(tree)) == tree


def test_differences_name_the_first_three_of_each_kind():
    got = signatures({f"extra_{i}": np.zeros(1) for i in range(5)} | {"w": np.zeros((2, 3), np.float32)})
    expected = signatures({"w": np.zeros((2, 4), np.float32), "b": np.zeros(4)})
    assert differences(got, expected) == (
        "w is float32[2,3], expected float32[2,4]; missing: b; surplus: extra_0, extra_1, extra_2 and 2 more"
    )
    assert differences(got, got) == ""
