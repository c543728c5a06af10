"""Who may see whom."""

import numpy as np
import pytest
import reference_numpy

from jaxgpt.config import RequestError
from jaxgpt.ops.attention import causal_mask
from jaxgpt.ops.attention.mask import build_mask


@pytest.mark.parametrize(("T", "S"), [(1, 1), (4, 4), (1, 5), (3, 7)])
def test_the_queries_are_the_last_positions_of_the_keys(T, S):
    np.testing.assert_array_equal(causal_mask(T, S), reference_numpy.visible("causal", T, S))


def test_the_full_mask_is_no_mask():
    assert build_mask("full", 4, 2) is None


def test_more_queries_than_keys_are_refused_under_the_causal_mask():
    with pytest.raises(RequestError, match=r"causal mask: 3 queries for 2 keys; .* pass every key, or mask='full'"):
        causal_mask(3, 2)


@pytest.mark.parametrize("mask", ["causel", None, True, np.ones((2, 2), bool)])
def test_an_unknown_mask_is_refused(mask):
    with pytest.raises(RequestError, match="mask: expected 'causal' or 'full', got "):
        build_mask(mask, 2, 2)
