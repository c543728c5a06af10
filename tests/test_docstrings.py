"""Every example in a docstring runs, with jax, jnp, np and jaxgpt at hand."""

import doctest
import importlib
import pkgutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgpt

pytestmark = pytest.mark.ci  # half a minute of small programs

MODULES = [info.name for info in pkgutil.walk_packages(jaxgpt.__path__, "jaxgpt.")]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name):
    names = {"jax": jax, "jnp": jnp, "np": np, "jaxgpt": jaxgpt}
    result = doctest.testmod(importlib.import_module(name), extraglobs=names)
    assert result.failed == 0
