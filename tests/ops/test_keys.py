"""One kind of key everywhere, whatever the process's default is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from program import ROOT

from jaxgpt import RequestError
from jaxgpt.ops.keys import check_key, random_key


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg"])
def test_a_seed_gives_the_same_threefry_key_under_any_default(implementation):
    with jax.default_prng_impl(implementation):
        key = random_key(2**32 - 1)
    assert jax.random.key_impl(key) == "threefry2x32"
    assert jax.random.key_data(key).tolist() == [0, 2**32 - 1]


def test_jaxgpt_makes_no_key_in_any_other_way():
    for path in (ROOT / "jaxgpt").rglob("*.py"):
        code = [line for line in path.read_text().splitlines() if not line.strip().startswith((">>>", "..."))]
        assert path.name == "keys.py" or not any("random.key(" in line or "PRNGKey" in line for line in code), path


def test_a_key_of_either_kind_becomes_the_same_typed_one():
    key = jax.random.key(5, impl="threefry2x32")
    untyped = np.array([0, 5], np.uint32)
    assert check_key(key) is key
    with jax.default_prng_impl("rbg"):  # under which an untyped key would be four numbers
        for given in (untyped, jnp.asarray(untyped)):
            assert bool(check_key(given) == key)


@pytest.mark.parametrize(
    ("key", "got"),
    [
        (0, "0"),
        (None, "None"),
        (np.array([0, 5], np.int32), r"int32\[2\]"),
        (np.zeros(4, np.uint32), r"uint32\[4\]"),
        (jax.random.split(jax.random.key(0), 3), r"key<fry>\[3\]"),
    ],
)
def test_what_is_no_key_is_refused(key, got):
    with pytest.raises(RequestError, match=rf"^key: expected a PRNG key such as jax\.random\.key\(0\), got {got}$"):
        check_key(key)
