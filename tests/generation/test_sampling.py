"""Repetition penalty, temperature, top-k, top-p, min-p: what is kept, what is drawn, and how often."""

import re

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from jaxgpt.config import RequestError
from jaxgpt.generation import filters
from jaxgpt.generation.sampling import NOT_FINITE, Sampling, choose, kept_tokens, log_probabilities

PROBABILITIES = np.array([0.5, 0.3, 0.15, 0.05])
V = 8
KEYS = jax.random.split(jax.random.key(7), 20_000)
# Rounded to a quarter, so that ties are common.
QUARTERS = arrays(np.float32, V, elements=st.integers(-20, 20).map(lambda i: i / 4))
HUGE = arrays(np.float32, V, elements=st.sampled_from([-3e38, -1e30, -1e4, -1.0, 0.0, 1.0, 1e4, 1e30, 3e38]))
SEEN = arrays(bool, V)


@jax.jit
def compiled_kept(logits_BV, sampling, seen_BV):
    penalised_BV = filters.penalised(logits_BV, seen_BV, sampling.repetition_penalty)
    distance_BV = filters.distances(penalised_BV, sampling.temperature, sampling.drawable_ids)
    return kept_tokens(distance_BV, sampling).mask(distance_BV)


compiled_choose = jax.jit(choose)
compiled_log_probabilities = jax.jit(log_probabilities)


@jax.jit
def choose_often(logits_V, keys_B, sampling, seen_V):
    rows = (keys_B.size, logits_V.size)
    return choose(jnp.broadcast_to(logits_V, rows), keys_B, sampling, jnp.broadcast_to(seen_V, rows))


def softmax(logits):
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def penalised(logits, seen, penalty):
    """The definition, in float64, id by id."""
    lowered = [x / penalty if x > 0 else x * penalty for x in logits.astype(np.float64)]
    return np.array([low if is_seen else x for x, low, is_seen in zip(logits, lowered, seen, strict=True)])


def ranking(logits, k):
    """The k most likely ids, the lower one first among equals, and the probability before each."""
    ranked = sorted(range(len(logits)), key=lambda i: (-logits[i], i))[:k]
    probabilities = softmax(np.asarray(logits, np.float64)[ranked])
    return ranked, np.concatenate([[0.0], np.cumsum(probabilities)[:-1]])


def filtered(logits, k=V, p=1.0, min_p=0.0):
    """The ids that top-k, then top-p, then min-p leave: their definitions, in float64, by sorting."""
    ranked, before = ranking(logits, k)
    by_p = [i for i, mass in zip(ranked, before, strict=True) if mass < p or p == 1]
    return [i for i in by_p if np.exp(logits[i] - logits[ranked[0]]) >= min_p]


def is_clear(logits, k, p, min_p):
    """Whether float32 and float64 must agree on what is kept."""
    _, before = ranking(logits, k)
    ratios = np.exp(logits - logits.max())
    return (p == 1 or np.abs(before - p).min() > 1e-5) and (min_p == 0 or np.abs(ratios / min_p - 1).min() > 1e-5)


def row_kept(logits, seen=None, **options):
    logits = np.asarray(logits, np.float32)
    seen = np.zeros(logits.size, bool) if seen is None else seen
    return np.flatnonzero(
        compiled_kept(logits[None], Sampling(**options).traced(logits.size), seen[None])[0]
    ).tolist()


def drawn(logits, keys=KEYS, seen=None, **options):
    """The token that each key draws."""
    logits = np.asarray(logits, np.float32)
    seen = np.zeros(logits.size, bool) if seen is None else np.asarray(seen)
    return np.asarray(choose_often(logits, keys, Sampling(**options).traced(logits.size), seen))


def counted(logits, **options):
    """How many of the keys draw each token."""
    return np.bincount(drawn(logits, **options), minlength=len(logits))


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
        ({"min_p": -0.1}, r"min_p: expected 0 to 1, got -0\.1; leave it out to keep all"),
        ({"min_p": 1.1}, r"min_p: expected 0 to 1, got 1\.1"),
        ({"min_p": float("nan")}, "min_p: expected 0 to 1, got nan"),
        (
            {"repetition_penalty": 0.0},
            "repetition_penalty: expected a float32 above 0, got 0; leave it out",
        ),
        ({"repetition_penalty": 1e39}, "expected a float32 above 0, got 1e\\+39"),
        ({"repetition_penalty": float("nan")}, "expected a float32 above 0, got nan"),
    ],
)
def test_values_that_no_distribution_has_are_refused(options, message):
    with pytest.raises(RequestError, match=message):
        Sampling(**options)


def test_top_p_counts_what_top_k_left():
    # 0.5 / (0.5 + 0.3) reaches 0.6 by itself; of the whole distribution 0.5 would not.
    assert row_kept(np.log(PROBABILITIES), top_k=2, top_p=0.6) == [0]
    assert row_kept(np.log(PROBABILITIES), top_p=0.6) == [0, 1]


def test_top_p_counts_the_tokens_that_min_p_removes():
    # Of the first two alone, 0.5 would be 0.625 of the probability and reach 0.6 by itself.
    assert row_kept(np.log(PROBABILITIES), top_p=0.6, min_p=0.5) == [0, 1]


def test_the_temperature_comes_before_top_p_and_min_p():
    # The square roots are 0.379, 0.294, 0.208, 0.120 of their sum: two of them do not reach 0.7, three do.
    assert set(drawn(np.log(PROBABILITIES), temperature=2.0, top_p=0.7)) == {0, 1, 2}
    assert set(drawn(np.log(PROBABILITIES), temperature=1.0, top_p=0.7)) == {0, 1}
    # 0.05 is a tenth of 0.5; its square root is 0.316 of the other.
    assert set(drawn(np.log(PROBABILITIES), temperature=2.0, min_p=0.2)) == {0, 1, 2, 3}
    assert set(drawn(np.log(PROBABILITIES), temperature=1.0, min_p=0.2)) == {0, 1, 2}


def test_the_penalty_comes_before_the_temperature_and_the_filters():
    # 2 becomes 1; of 1 and 1.5 at temperature 0.5 the second has 0.73.
    options = {"seen": np.array([True, False]), "temperature": 0.5, "top_p": 0.7}
    assert row_kept([2.0, 1.5], repetition_penalty=2.0, **options) == [1]
    assert row_kept([2.0, 1.5], **options) == [0]


def test_exactly_k_are_kept_when_tokens_tie_the_lowest_ids():
    assert row_kept([1.0, 2.0, 2.0, 2.0], top_k=2) == [1, 2]
    assert row_kept(np.zeros(4), top_k=3) == [0, 1, 2]
    assert row_kept(np.zeros(4), top_p=0.6) == [0, 1, 2]
    assert row_kept(np.zeros(4), min_p=1.0) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "options", [{"top_p": 0.01}, {"top_p": 1e-30}, {"top_p": 1e-60}, {"min_p": 1.0}, {"top_k": 1}], ids=str
)
def test_the_most_likely_token_stays_however_strict_the_filter(options):
    assert row_kept([0.0, 1.0, 0.5, 0.2], **options) == [1]


@pytest.mark.parametrize(
    "options",
    [{}, {"top_k": V}, {"top_k": 10**12}, {"top_p": 1.0}, {"min_p": 0.0}, {"repetition_penalty": 1.0}],
    ids=str,
)
def test_neutral_values_change_nothing(options):
    # The last tokens' probabilities vanish beside 1 in float32; they stay all the same.
    logits = np.linspace(0, -90, V)
    seen = np.arange(V) < 5
    assert row_kept(logits, seen=seen, **options) == list(range(V))
    tempered = drawn(logits, keys=KEYS[:500], seen=seen, temperature=30.0, **options)
    assert tempered.tolist() == drawn(logits, keys=KEYS[:500], temperature=30.0).tolist()


def test_temperature_0_takes_the_most_likely_token_and_the_lowest_id_on_ties():
    assert set(drawn([0.0, 3.0, 3.0, 1.0], temperature=0)) == {1}
    assert set(drawn([-2.0, -1.0, -1.5, -1.1], temperature=0, top_k=2, top_p=0.5, min_p=0.5)) == {1}


@settings(deadline=None)
@given(logits=QUARTERS | HUGE, seen=SEEN, penalty=st.sampled_from([0.5, 1.0, 1.3, 2.0]), drawable=st.integers(1, V))
def test_temperature_0_takes_the_largest_penalised_logit_that_may_be_drawn(logits, seen, penalty, drawable):
    wanted = np.clip(penalised(logits, seen, np.float32(penalty)), -3.4028234e38, 3.4028234e38)[:drawable]
    options = {"temperature": 0, "repetition_penalty": penalty, "drawable_ids": drawable}
    chosen = drawn(logits, keys=KEYS[:1], seen=seen, **options)
    assert wanted[chosen[0]] == pytest.approx(wanted.max(), rel=1e-6)
    assert chosen[0] == np.flatnonzero(wanted.astype(np.float32) == wanted.astype(np.float32).max())[0]


@pytest.mark.parametrize("temperature", [1e-30, 2e-38, 1e-42, 1e-60])
def test_the_smallest_temperatures_draw_what_temperature_0_takes(temperature):
    assert set(drawn([5.0, 7.9, 3.0, 8.0], temperature=temperature)) == {3}


def test_a_filtered_token_is_never_drawn_and_the_others_come_as_often_as_they_should():
    logits = np.array([0.3, 2.0, -1.0, 1.1, 0.9, 1.6, -4.0, 0.0])
    seen = np.array([0, 1, 1, 0, 0, 0, 0, 1], bool)
    tempered = penalised(logits, seen, 1.2) / 1.3
    ids = filtered(tempered, 7, 0.95, 0.3)
    assert len(ids) == 5
    assert len(filtered(tempered, 7, 0.95)) == 6 < len(filtered(tempered, 7)) == 7 < V
    expected = softmax(tempered[ids]) * len(KEYS)
    counts = counted(logits, seen=seen, repetition_penalty=1.2, temperature=1.3, top_k=7, top_p=0.95, min_p=0.3)
    assert counts[ids].sum() == len(KEYS)
    # Chi-square with 4 degrees of freedom exceeds x with probability exp(-x/2) (1 + x/2): one in a million at 33.4.
    assert ((counts[ids] - expected) ** 2 / expected).sum() < 33.4


@settings(max_examples=150, deadline=None)
@given(
    logits=QUARTERS,
    k=st.integers(1, V + 2),
    p=st.floats(0.01, 1.0) | st.just(1.0),
    min_p=st.floats(0.001, 1.0) | st.just(0.0),
)
@example(logits=np.zeros(V, np.float32), k=V, p=1.0, min_p=0.0)
@example(logits=np.zeros(V, np.float32), k=6, p=0.7, min_p=0.5)
def test_the_filters_keep_what_their_definitions_keep(logits, k, p, min_p):
    assume(is_clear(logits, k, p, min_p))
    assert row_kept(logits, top_k=k, top_p=p, min_p=min_p) == sorted(filtered(logits, k, p, min_p))


def test_batches_of_many_tokens_with_many_ties_keep_what_the_definitions_keep():
    rng = np.random.default_rng(0)
    logits_BV = np.round(rng.normal(0, 3, (3, 2000)) * 4).astype(np.float32) / 4
    seen_BV = np.zeros(logits_BV.shape, bool)
    for k, p, min_p in ((2000, 0.9, 0.0), (700, 1.0, 0.0), (1234, 0.77, 0.0), (900, 0.97, 0.02)):
        assert all(is_clear(logits.astype(np.float64), k, p, min_p) for logits in logits_BV)
        sampling = Sampling(top_k=k, top_p=p, min_p=min_p).traced(2000)
        for logits, mask in zip(logits_BV, compiled_kept(logits_BV, sampling, seen_BV), strict=True):
            assert np.flatnonzero(mask).tolist() == sorted(filtered(logits.astype(np.float64), k, p, min_p))


@settings(max_examples=100, deadline=None)
@given(logits=HUGE, seen=SEEN, temperature=st.sampled_from([1e-37, 1e-3, 1.0, 1e30]), k=st.integers(1, V))
def test_huge_logits_keep_k_tokens_and_draw_one_that_has_a_probability(logits, seen, temperature, k):
    options = {"temperature": temperature, "repetition_penalty": 1.5, "seen": seen}
    assert len(row_kept(logits, top_k=k, **options)) == k
    lowered = np.clip(penalised(logits, seen, np.float32(1.5)), -3.4028234e38, 3.4028234e38)
    chosen = drawn(logits, keys=KEYS[:1], top_k=k, **options)[0]
    assert (lowered[chosen] - lowered.max()) / temperature > -103


@settings(max_examples=150, deadline=None)
@given(
    logits=QUARTERS,
    temperature=st.floats(0.05, 20),
    k=st.integers(1, V),
    p=st.floats(0.05, 1),
    seed=st.integers(0, 99),
)
def test_a_draw_is_the_largest_of_the_kept_logits_plus_gumbel_noise(logits, temperature, k, p, seed):
    tempered = logits.astype(np.float64) / temperature
    assume(is_clear(tempered, k, p, 0))
    key = jax.random.key(seed)
    noisy = tempered + np.asarray(jax.random.gumbel(key, (V,)), np.float64)
    best = sorted(filtered(tempered, k, p), key=lambda i: -noisy[i])
    assume(len(best) == 1 or noisy[best[0]] - noisy[best[1]] > 1e-4)
    assert drawn(logits, keys=key[None], temperature=temperature, top_k=k, top_p=p)[0] == best[0]


@pytest.mark.parametrize("options", [{"top_k": 5}, {"top_p": 0.5}, {"min_p": 0.3}, {"temperature": 0}], ids=str)
def test_every_row_of_a_batch_draws_as_it_would_alone_with_its_key(options):
    rows_BV = jax.random.normal(jax.random.key(1), (5, V)).at[3].set(jnp.nan)
    seen_BV = jax.random.bernoulli(jax.random.key(2), 0.5, (5, V))
    sampling = Sampling(**{"temperature": 0.7, "repetition_penalty": 2.0} | options).traced(V)
    together = compiled_choose(rows_BV, KEYS[:5], sampling, seen_BV).tolist()
    rows = [slice(i, i + 1) for i in range(5)]
    assert together == [int(compiled_choose(rows_BV[i], KEYS[i], sampling, seen_BV[i])[0]) for i in rows]
    assert together[3] == NOT_FINITE


def test_rows_of_one_text_with_different_keys_draw_different_tokens():
    assert len(set(drawn(np.zeros(V), keys=KEYS[:9]))) > 1


@pytest.mark.parametrize(
    "options", [{"temperature": 0}, {"temperature": 3.0}, {"top_k": 3}, {"top_p": 0.5}, {"min_p": 0.01}], ids=str
)
def test_ids_that_may_not_be_drawn_never_are_and_the_others_as_if_there_were_no_more(options):
    logits = np.log([0.1, 0.2, 0.1, 0.6])
    assert set(drawn(logits, drawable_ids=3, **options)) <= {0, 1, 2}
    assert set(row_kept(logits, drawable_ids=3, **{"temperature": 1.0} | options)) <= {0, 1, 2}
    shares = counted(logits, drawable_ids=3) / len(KEYS)
    assert np.abs(shares - [0.25, 0.5, 0.25, 0]).max() < 0.02


def test_more_ids_to_draw_among_than_there_are_are_refused():
    with pytest.raises(RequestError, match=r"drawable_ids: the model has 8 ids, got 9"):
        Sampling(drawable_ids=9).traced(V)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("temperature", [0, 1.0])
def test_logits_that_are_not_finite_are_an_error_wherever_they_stand(value, temperature):
    logits = np.zeros(V)
    logits[7] = value
    assert drawn(logits, keys=KEYS[:1], drawable_ids=3, temperature=temperature)[0] == NOT_FINITE


def equations(jaxpr, into_branches):
    """The primitives of a program, those of the branches that it may skip only if asked for."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        if equation.primitive.name != "cond" or into_branches:
            for inner in jax.extend.core.jaxprs_in_params(equation.params):
                yield from equations(inner, into_branches)


def arguments(vocab_size=V, **options):
    logits_BV = jnp.zeros((2, vocab_size))
    return logits_BV, KEYS[:2], Sampling(**options).traced(vocab_size), logits_BV > 0


def test_what_a_greedy_choice_does_not_need_lies_in_a_branch_that_it_skips():
    program = jax.make_jaxpr(choose)(*arguments()).jaxpr
    loops = {"random_bits", "while", "scan", "exp", "log"}
    assert not loops & set(equations(program, into_branches=False))
    assert {"random_bits", "exp", "log"} < set(equations(program, into_branches=True))


def test_filters_that_keep_all_lie_in_branches_that_a_draw_skips():
    program = jax.make_jaxpr(lambda distance_BV, sampling: kept_tokens(distance_BV, sampling))(
        jnp.zeros((2, V)), Sampling().traced(V)
    ).jaxpr
    assert not {"while", "scan", "exp"} & set(equations(program, into_branches=False))
    assert {"scan", "exp"} < set(equations(program, into_branches=True))


def test_the_compiled_program_sorts_nothing():
    text = compiled_choose.lower(*arguments(vocab_size=1000)).compile().as_text()
    assert re.search(r"\bwhile\(", text)  # else this is not the text in which a sort would stand
    assert not re.search(r"\bsort\(|TopK|top-k", text)


def test_other_values_do_not_compile_again():
    fresh = jax.jit(lambda *arguments: choose(*arguments))
    for options in (
        {},
        {"temperature": 0},
        {"temperature": 0.5, "top_k": 3},
        {"top_k": 1, "top_p": 0.2},
        {"min_p": 0.1, "repetition_penalty": 1.3, "drawable_ids": 2},
    ):
        fresh(*arguments(**options))
    assert fresh._cache_size() == 1


@given(logits=QUARTERS | HUGE, id=st.integers(0, V - 1))
@settings(deadline=None)
def test_log_probabilities_are_those_of_the_softmax(logits, id):
    wide = logits.astype(np.float64)
    wanted = wide[id] - wide.max() - np.log(np.exp(wide - wide.max()).sum())
    got = compiled_log_probabilities(logits[None], np.array([id]))
    assert got.dtype == np.float32
    if wanted > -3e38:
        assert got[0] == pytest.approx(wanted, rel=1e-5, abs=1e-5)


def test_the_log_probability_of_an_id_that_there_is_not_is_nan():
    got = compiled_log_probabilities(np.zeros((3, V)), np.array([NOT_FINITE, V, 0]))
    assert np.isnan(got).tolist() == [True, True, False]


@pytest.mark.parametrize("wrong", ["keys", "seen"])
def test_keys_and_seen_ids_are_one_per_row(wrong):
    logits_BV, keys_B, sampling, seen_BV = arguments()
    if wrong == "keys":
        keys_B = keys_B[:1]
    else:
        seen_BV = seen_BV[:1]
    with pytest.raises(RequestError, match=rf"{wrong}_BV?: expected shape \[B=2"):
        choose(logits_BV, keys_B, sampling, seen_BV)
