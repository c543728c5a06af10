"""Comparing with other packages: how to import one, and how far apart two trees may lie."""

import importlib
import os

import jax
import numpy as np
import pytest

VARIABLE = "JAXGPT_PEERS"


def peer(name, variable=VARIABLE):
    """The package; without it the tests of the file are skipped, or with the variable 'required' they fail."""
    wish = os.environ.get(variable)
    assert wish in (None, "required"), f"{variable} is '{wish}'; expected 'required', or no such variable"
    return importlib.import_module(name) if wish else pytest.importorskip(name)


def assert_close(got, expected, tolerance):
    """The largest difference over the largest reference value, array by array.

    An array whose values are a hundred times below the tree's largest is measured by that: keys' biases have a
    gradient of zero, and what is computed there is rounding.
    """
    pairs = list(zip(map(np.asarray, jax.tree.leaves(got)), map(np.asarray, jax.tree.leaves(expected)), strict=True))
    floor = 1e-2 * max(np.abs(reference).max() for _, reference in pairs)
    for one, reference in pairs:
        assert one.shape == reference.shape
        assert np.abs(one - reference).max() <= tolerance * max(np.abs(reference).max(), floor)
