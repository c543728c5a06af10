"""Temperature, then top-k, then top-p: what is kept, what is drawn, and how often."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from jaxgpt.config import RequestError
from jaxgpt.generation.sampling import NOT_FINITE, Sampling, choose, kept_tokens

PROBABILITIES = np.array([0.5, 0.3, 0.15, 0.05])
V = 8
KEYS = jax.random.split(jax.random.key(7), 20_000)
# Rounded to a quarter, so that ties are common.
LOGITS = arrays(np.float32, V, elements=st.integers(-20, 20).map(lambda i: i / 4))
compiled_kept = jax.jit(kept_tokens)
compiled_choose = jax.jit(choose)
choose_often = jax.jit(jax.vmap(choose, in_axes=(None, 0, None, None, None, None)))


def softmax(logits):
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def cumulative(logits, k):
    """Return the k most likely ids, the lower one first among equals, and the probability before each."""
    ranked = sorted(range(len(logits)), key=lambda i: (-logits[i], i))[:k]
    probabilities = softmax(np.asarray(logits, np.float64)[ranked])
    return ranked, np.concatenate([[0.0], np.cumsum(probabilities)[:-1]])


def filtered(logits, k, p):
    """Return the ids that top-k and then top-p leave: the sampler's definition, in float64."""
    ranked, before = cumulative(logits, k)
    return [i for i, mass in zip(ranked, before, strict=True) if mass < p or p == 1]


def kept(logits, **options):
    _, k, p, _ = Sampling(**options).traced(len(logits))
    return np.flatnonzero(compiled_kept(jnp.asarray(logits)[None], k, p)[0]).tolist()


def drawn(logits, keys=KEYS, **options):
    """Return the token that each key draws."""
    arguments = Sampling(**options).traced(len(logits))
    row_BV = jnp.asarray(logits, jnp.float32)[None]
    return np.asarray(choose_often(row_BV, keys, *arguments))[:, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -0.1}, r"temperature: expected a number of at least 0, got -0\.1"),
        ({"temperature": float("nan")}, "temperature: expected a number of at least 0, got nan"),
        ({"temperature": float("inf")}, "temperature: expected a number of at least 0, got inf"),
        ({"drawable_ids": 0}, "drawable_ids: expected a whole number of at least 1, got 0; leave it out to draw"),
        ({"top_k": 0}, "top_k: expected a whole number of at least 1, got 0; leave it out to keep all"),
        ({"top_k": -3}, "top_k: expected a whole number of at least 1, got -3"),
        ({"top_k": 2.5}, r"top_k: expected a whole number of at least 1, got 2\.5"),
        ({"top_p": 0.0}, "top_p: expected above 0 and at most 1, got 0; leave it out to keep all"),
        ({"top_p": 1.1}, r"top_p: expected above 0 and at most 1, got 1\.1"),
        ({"top_p": float("nan")}, "top_p: expected above 0 and at most 1, got nan"),
    ],
)
def test_values_that_no_distribution_has_are_refused(options, message):
    with pytest.raises(RequestError, match=message):
        Sampling(**options)


def test_top_p_counts_what_top_k_left():
    # 0.5 / (0.5 + 0.3) reaches 0.6 by itself; of the whole distribution 0.5 would not.
    assert kept(np.log(PROBABILITIES), top_k=2, top_p=0.6) == [0]
    assert kept(np.log(PROBABILITIES), top_p=0.6) == [0, 1]


def test_the_temperature_comes_before_top_p():
    # The square roots are 0.379, 0.294, 0.208, 0.120 of their sum: two of them do not reach 0.7, three do.
    assert set(drawn(np.log(PROBABILITIES), temperature=2.0, top_p=0.7)) == {0, 1, 2}
    assert set(drawn(np.log(PROBABILITIES), temperature=1.0, top_p=0.7)) == {0, 1}


def test_exactly_k_are_kept_when_tokens_tie_the_lowest_ids():
    assert kept([1.0, 2.0, 2.0, 2.0], top_k=2) == [1, 2]
    assert kept(np.zeros(4), top_k=3) == [0, 1, 2]
    assert kept(np.zeros(4), top_p=0.6) == [0, 1, 2]


@pytest.mark.parametrize("p", [0.01, 1e-30, 1e-60], ids=str)
def test_top_p_keeps_the_most_likely_token_however_small_p_is(p):
    assert kept([0.0, 1.0, 0.5, 0.2], top_p=p) == [1]


@pytest.mark.parametrize("options", [{"top_k": V}, {"top_k": 10**12}, {"top_p": 1.0}, {}], ids=str)
def test_k_of_the_whole_vocabulary_and_p_of_one_filter_nothing(options):
    # The last tokens' probabilities vanish beside 1 in float32; they stay all the same.
    assert kept(np.linspace(0, -90, V), **options) == list(range(V))


def test_temperature_0_takes_the_most_likely_token_and_the_lowest_id_on_ties():
    assert set(drawn([0.0, 3.0, 3.0, 1.0], temperature=0)) == {1}
    assert set(drawn([-2.0, -1.0, -1.5, -1.1], temperature=0, top_k=2, top_p=0.5)) == {1}


@pytest.mark.parametrize("temperature", [1e-30, 2e-38, 1e-42, 1e-60])
def test_the_smallest_temperatures_draw_what_temperature_0_takes(temperature):
    assert set(drawn([5.0, 7.9, 3.0, 8.0], temperature=temperature)) == {3}


def test_a_filtered_token_is_never_drawn_and_the_others_come_as_often_as_they_should():
    logits = np.array([0.3, 2.0, -1.0, 1.1, 0.9, 1.6, -4.0, 0.0])
    options = {"temperature": 1.3, "top_k": 6, "top_p": 0.9}
    ids = filtered(logits / 1.3, 6, 0.9)
    assert len(ids) == 5
    expected = softmax(logits[ids] / 1.3) * len(KEYS)
    counts = np.bincount(drawn(logits, **options), minlength=V)
    assert counts[ids].sum() == len(KEYS)
    # Chi-square with 4 degrees of freedom exceeds x with probability exp(-x/2) (1 + x/2): one in a million at 33.4.
    assert ((counts[ids] - expected) ** 2 / expected).sum() < 33.4


@settings(max_examples=150, deadline=None)
@given(logits=LOGITS, k=st.integers(1, V + 2), p=st.floats(0.01, 1.0))
@example(logits=np.zeros(V, np.float32), k=V, p=1.0)
def test_the_filters_keep_what_their_definition_keeps(logits, k, p):
    _, before = cumulative(logits, k)
    assume(p == 1 or np.abs(before - p).min() > 1e-5)  # else float32 and float64 may disagree
    assert kept(logits, top_k=k, top_p=p) == sorted(filtered(logits, k, p))


@settings(max_examples=150, deadline=None)
@given(
    logits=LOGITS, temperature=st.floats(0.05, 20), k=st.integers(1, V), p=st.floats(0.05, 1), seed=st.integers(0, 99)
)
def test_a_draw_is_the_largest_of_the_kept_logits_plus_gumbel_noise(logits, temperature, k, p, seed):
    tempered = logits.astype(np.float64) / temperature
    _, before = cumulative(tempered, k)
    assume(p == 1 or np.abs(before - p).min() > 1e-5)
    key = jax.random.key(seed)
    noisy = tempered + np.asarray(jax.random.gumbel(key, (V,)), np.float64)
    best = sorted(filtered(tempered, k, p), key=lambda i: -noisy[i])
    assume(len(best) == 1 or noisy[best[0]] - noisy[best[1]] > 1e-4)
    assert drawn(logits, keys=key[None], temperature=temperature, top_k=k, top_p=p)[0] == best[0]


def test_every_row_of_a_batch_draws_as_it_would_alone():
    rows_BV = jax.random.normal(jax.random.key(1), (5, V))
    arguments = Sampling(temperature=0.7, top_k=5).traced(V)
    together = compiled_choose(rows_BV, KEYS[0], *arguments).tolist()
    assert together == [
        int(compiled_choose(row_BV, KEYS[0], *arguments)[0]) for row_BV in np.asarray(rows_BV)[:, None]
    ]


def test_other_values_of_temperature_k_and_p_do_not_compile_again():
    fresh = jax.jit(lambda *arguments: choose(*arguments))
    for options in ({}, {"temperature": 0}, {"temperature": 0.5, "top_k": 3}, {"top_k": 1, "top_p": 0.2}):
        fresh(jnp.zeros((2, V)), KEYS[0], *Sampling(**options).traced(V))
    assert fresh._cache_size() == 1


@pytest.mark.parametrize("options", [{"temperature": 0}, {"temperature": 3.0}, {"top_k": 3}, {"top_p": 0.5}], ids=str)
def test_ids_that_may_not_be_drawn_never_are_and_the_others_as_if_there_were_no_more(options):
    logits = np.log([0.1, 0.2, 0.1, 0.6])
    assert set(drawn(logits, drawable_ids=3, **options)) <= {0, 1, 2}
    shares = np.bincount(drawn(logits, drawable_ids=3), minlength=4) / len(KEYS)
    assert np.abs(shares - [0.25, 0.5, 0.25, 0]).max() < 0.02


def test_more_ids_to_draw_among_than_there_are_are_refused():
    with pytest.raises(RequestError, match=r"drawable_ids: the model has 8 ids, got 9"):
        Sampling(drawable_ids=9).traced(V)


def test_logits_that_are_not_finite_are_an_error_wherever_they_stand():
    row_BV = jnp.zeros((1, V)).at[0, 7].set(jnp.nan)
    assert int(compiled_choose(row_BV, KEYS[0], *Sampling(drawable_ids=3).traced(V))[0]) == NOT_FINITE
