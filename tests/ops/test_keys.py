"""One kind of key everywhere, whatever the process's default is."""

import jax
import pytest
from program import ROOT

from jaxgpt.ops.keys import random_key


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
