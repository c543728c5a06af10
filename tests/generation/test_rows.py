"""n continuations, ends by ids and texts, log-probabilities, pieces, and drafts from the text itself."""

import jax
import numpy as np
import pytest
import reference_numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import random_parameters

from jaxgpt import ModelConfig, PromptLookup, RequestError
from jaxgpt.generation.generate import GenerationStream, generate
from jaxgpt.generation.lookup import drafted
from jaxgpt.generation.requests import GenerationRequest
from jaxgpt.generation.sampling import Sampling

CONFIG = ModelConfig(vocab_size=11, context_length=40, width=12, layers=1, heads=3)
PARAMS = random_parameters(CONFIG)
KEY = jax.random.key(5)
PROMPTS = [[3, 1, 4], [1, 5, 9, 2, 6]]
NEW = 12


def continued(prompts=PROMPTS, new=NEW, **options):
    return generate(CONFIG, PARAMS, prompts, max_new_tokens=new, key=KEY, **options)


def letters(ids):
    return "".join("abcdefghijk"[token] for token in ids)


def test_continuations_of_a_prompt_differ_and_do_not_depend_on_how_many_there_are():
    two, one = continued(n=2).ids, continued().ids
    assert [ids[: len(prompt)] for ids, prompt in zip(two[::2], PROMPTS, strict=True)] == PROMPTS
    assert two[::2] == one
    assert len({tuple(ids) for ids in two}) == 4


def test_the_same_prompt_given_twice_gives_the_same_text_twice():
    first, second = continued([PROMPTS[1]] * 2).ids
    assert first == second


def test_a_row_ends_behind_its_stop_id_and_the_others_go_on():
    free = continued().ids
    first, second = (ids[len(prompt) :] for ids, prompt in zip(free, PROMPTS, strict=True))
    stop = next(token for token in second if token not in first)
    result = continued(stop_ids=[stop])
    assert result.ids == [free[0], PROMPTS[1] + second[: second.index(stop) + 1]]
    assert result.stop_reasons == ["length", "stop_id"]


def test_a_row_ends_with_the_token_that_completes_a_stop_string():
    free = continued()
    new = letters(free.ids[0][3:])
    other = letters(free.ids[1][5:])
    stop = next(new[i : i + 2] for i in range(NEW) if new[i : i + 2] not in other)
    result = continued(stop_strings=[stop, "never there"], decode=letters)
    assert letters(result.ids[0][3:]) == new[: new.index(stop) + 2]
    assert letters(result.ids[1][5:]) == other
    assert result.stop_reasons == ["stop_string", "length"]


def test_no_new_tokens_end_for_their_number():
    assert continued(new=0).stop_reasons == ["length", "length"]


def test_log_probabilities_are_the_models_own():
    result = continued(temperature=2.0, top_k=4, logprobs=True)
    assert continued().logprobs is None
    for ids, prompt, nats in zip(result.ids, PROMPTS, result.logprobs, strict=True):
        logits = reference_numpy.forward(CONFIG, PARAMS, np.array([ids[:-1]]))[0, len(prompt) - 1 :]
        shifted = logits - logits.max(-1, keepdims=True)
        wanted = (shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))[np.arange(NEW), ids[len(prompt) :]]
        np.testing.assert_allclose(nats, wanted, atol=2e-5)


@pytest.mark.parametrize("patience", [None, 1e-9, 0.01])
def test_pieces_joined_are_the_whole(patience):
    request = GenerationRequest(max_new_tokens=NEW, n=2, sampling=Sampling(temperature=0.7))
    stream = GenerationStream(CONFIG, PARAMS, PROMPTS, request, key=KEY, patience=patience)
    joined = [[*prompt] for prompt in PROMPTS for _ in range(2)]
    ended = set()
    for piece in stream:
        assert piece.row not in ended
        joined[piece.row] += piece.ids
        if piece.stop_reason is not None:
            ended.add(piece.row)
    assert joined == stream.result().ids == continued(n=2, temperature=0.7).ids
    assert ended == {0, 1, 2, 3}


@pytest.mark.ci
def test_a_crop_goes_on_where_the_cache_ends():
    """Past the context every token is chosen from the last ids alone; up to there from the cache."""
    options = {"temperature": 0.9, "context_policy": "crop", "n": 2, "logprobs": True}
    long, short = continued(new=50, **options), continued(new=30, **options)
    assert [ids[: len(start)] for ids, start in zip(long.ids, short.ids, strict=True)] == short.ids
    assert [len(nats) for nats in long.logprobs] == [50] * 4


REPEATING = [[1, 2, 3, 4, 1, 2, 3, 4, 1, 2], [7], [5, 5, 5]]


@pytest.mark.parametrize(
    "lookup",
    [PromptLookup(), pytest.param(PromptLookup(draft=1, longest=1), marks=pytest.mark.ci)],
    ids=["usual", "least"],
)
def test_drafting_gives_the_greedy_ids(lookup):
    options = {"temperature": 0, "stop_ids": [8], "logprobs": True}
    plain, fast = (continued(REPEATING, 30, lookup=choice, **options) for choice in (None, lookup))
    assert (fast.ids, fast.stop_reasons) == (plain.ids, plain.stop_reasons)
    assert plain.acceptance is None
    assert 0 < fast.acceptance < 1  # so both what is kept and what is not has been seen
    for nats, wanted in zip(fast.logprobs, plain.logprobs, strict=True):
        np.testing.assert_allclose(nats, wanted, atol=2e-5)


def test_drafts_are_counted_for_each_row():
    """Each draft brings the tokens of it that are kept and one of the model's own, behind the first one of all."""
    greedy, lookup = Sampling(temperature=0), PromptLookup(draft=4)
    request = GenerationRequest(max_new_tokens=NEW, sampling=greedy, stop_ids=[8], lookup=lookup, logprobs=True)
    stream = GenerationStream(CONFIG, PARAMS, REPEATING, request, key=KEY)
    new = [0, 0, 0]
    for piece in stream:
        new[piece.row] += len(piece.ids)
    drafted_B, kept_B = stream.rows.drafted_B.tolist(), stream.rows.kept_B.tolist()
    assert new == [1 + tokens // 4 + kept for tokens, kept in zip(drafted_B, kept_B, strict=True)]
    assert stream.result().acceptance == sum(kept_B) / sum(drafted_B)


@pytest.mark.ci
def test_a_model_that_repeats_itself_accepts_its_drafts():
    """Without attention and positions the next token follows from the last one alone, so greedy text is a cycle."""
    cycle = CONFIG.replace(position="none")
    params = random_parameters(cycle)
    params["blocks_0"]["attention"]["out"] = {
        name: np.zeros_like(x) for name, x in params["blocks_0"]["attention"]["out"].items()
    }
    result = generate(cycle, params, [[1]], max_new_tokens=38, temperature=0, key=KEY, lookup=PromptLookup())
    assert result.acceptance > 0.5
    assert result.ids == generate(cycle, params, [[1]], max_new_tokens=38, temperature=0, key=KEY).ids


def test_a_long_row_that_ended_does_not_hold_up_the_drafts_of_the_others():
    """The first row ends in the last slots of the cache, where the second has most of them before it."""
    stop = continued([[1] * 30], 1, temperature=0).ids[0][-1]
    prompts = [[1] * 38, [2], [3]]  # as many rows as in the test above, so that nothing more is compiled
    options = {"temperature": 0, "stop_ids": [stop], "logprobs": True}
    plain, fast = (continued(prompts, 2, lookup=lookup, **options) for lookup in (None, PromptLookup()))
    assert (fast.ids, fast.stop_reasons) == (plain.ids, plain.stop_reasons)


def test_a_stream_goes_on_where_it_was_left():
    stream = GenerationStream(CONFIG, PARAMS, PROMPTS, GenerationRequest(max_new_tokens=NEW, logprobs=True), key=KEY)
    first = next(iter(stream))
    assert first.ids == stream.result().ids[0][3:4]
    assert len(list(stream)) >= 2
    whole = continued(logprobs=True)
    assert (stream.result().ids, stream.result().logprobs) == (whole.ids, whole.logprobs)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2), min_size=1, max_size=14), st.integers(1, 4))
def test_a_draft_is_what_followed_the_longest_run_where_it_stood_last(ids, longest):
    lookup = PromptLookup(draft=2, longest=longest)
    padded = np.array([ids + [9] * (16 - len(ids))])
    draft = np.asarray(drafted(padded, np.array([len(ids)]), lookup))[0].tolist()
    for run in range(min(longest, len(ids)), 0, -1):
        places = [i for i in range(run, len(ids)) if ids[i - run : i] == ids[len(ids) - run :]]
        if places:
            assert draft == padded[0, places[-1] : places[-1] + 2].tolist()
            return


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n: expected at least 1, got 0"),
        ({"n": 1.5}, r"n: expected a whole number, got 1\.5"),
        ({"stop_strings": "end"}, "stop_strings: expected a list of texts that are not empty, got 'end'"),
        ({"stop_strings": [""]}, "stop_strings: expected a list of texts that are not empty"),
        ({"stop_strings": ["end"]}, "stop_strings are looked for in text; pass decode="),
        ({"stop_ids": [5.5]}, r"stop_ids: expected whole numbers in a set or a list, got 5\.5"),
        ({"stop_ids": 3}, "stop_ids: expected whole numbers in a set or a list, got 3"),
        ({"stop_ids": [99]}, r"stop_ids\[0\] is 99, outside the vocabulary 0\.\.10"),
        ({"stop_strings": [5]}, r"stop_strings: expected a list of texts that are not empty, got \[5\]"),
        ({"lookup": True, "temperature": 0}, r"lookup: expected a jaxgpt\.PromptLookup or None, got True"),
        ({"lookup": PromptLookup(draft=40), "temperature": 0}, "a draft of 40 tokens .* the context of 40"),
        ({"lookup": PromptLookup()}, "lookup drafts tokens for plain greedy .* with a temperature above 0"),
        ({"lookup": PromptLookup(), "temperature": 0, "repetition_penalty": 2.0}, "with a repetition penalty"),
        ({"lookup": PromptLookup(), "temperature": 0, "context_policy": "crop"}, "with context_policy 'crop'"),
    ],
)
def test_a_wrong_request_is_refused(options, message):
    with pytest.raises(RequestError, match=message):
        continued(**options)


def test_a_lookup_that_looks_for_nothing_is_refused():
    with pytest.raises(RequestError, match="lookup: expected draft to be a whole number of at least 1, got 0"):
        PromptLookup(draft=0)
