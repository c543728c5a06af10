"""The generation loop against a loop with nothing clever in it, and what it refuses."""

import jax
import numpy as np
import pytest
import reference_numpy
from small_models import random_parameters

from jaxgpt import ModelConfig, RequestError, WorkError
from jaxgpt.generation.generate import generate

# 40 positions: prompts and continuations cross the width of 32 at which a window is compiled anew.
CONFIG = ModelConfig(vocab_size=11, context_length=40, width=12, layers=1, heads=3)
PARAMS = random_parameters(CONFIG)
KEY = jax.random.key(5)


def prompt(length, seed=0):
    return np.random.default_rng(seed).integers(0, CONFIG.vocab_size, length).tolist()


def naive(ids, new, temperature=0, penalty=1.0, sample=0):
    """Run the float64 reference on exactly the ids it may see, take the last logits, choose, append."""
    ids = list(ids)
    key = jax.random.fold_in(KEY, sample)
    for i in range(new):
        seen = np.array([ids[-CONFIG.context_length :]])
        logits = reference_numpy.forward(CONFIG, PARAMS, seen)[0, -1]
        held = sorted(set(ids))
        logits[held] = np.where(logits[held] > 0, logits[held] / penalty, logits[held] * penalty)
        noise = np.asarray(jax.random.gumbel(jax.random.fold_in(key, i), logits.shape), np.float64)
        scores = logits if temperature == 0 else logits / temperature + noise
        ids.append(int(scores.argmax()))
    return ids


def continued(prompts, new, **options):
    return generate(CONFIG, PARAMS, prompts, max_new_tokens=new, key=KEY, **options).ids


@pytest.mark.parametrize("temperature", [0, 0.8])
@pytest.mark.parametrize(("length", "new"), [(1, 8), (28, 10)], ids=["short", "across two widths"])
def test_generation_equals_a_full_forward_on_the_exact_ids(length, new, temperature):
    start = prompt(length)
    assert continued([start], new, temperature=temperature) == [naive(start, new, temperature)]


@pytest.mark.parametrize("temperature", [0, 0.8])
@pytest.mark.parametrize("length", [36, 40, 55], ids=["outgrows the context", "fills it", "is longer"])
def test_a_cropped_context_is_the_last_ids_from_position_0(length, temperature):
    start = prompt(length)
    result = continued([start], 8, temperature=temperature, context_policy="crop")
    assert result == [naive(start, 8, temperature)]


def test_the_penalty_is_for_every_id_of_the_row_those_outside_the_context_too():
    options = {"temperature": 0, "context_policy": "crop"}
    context = [token % 4 for token in prompt(40)]
    likeliest = continued([context], 1, **options)[0][-1]
    row = [likeliest, *context]
    result = continued([row], 8, repetition_penalty=3.0, **options)
    assert result == [naive(row, 8, 0, penalty=3.0)]
    assert likeliest not in context
    assert result[0][len(row)] != likeliest


def test_min_p_of_one_is_greedy_whatever_the_key():
    assert continued([prompt(3)], 10, min_p=1.0) == continued([prompt(3)], 10, temperature=0)


@pytest.mark.parametrize("temperature", [0, 5])
def test_only_drawable_ids_are_appended(temperature):
    start = prompt(3)
    new = {count: continued([start], 8, temperature=temperature, drawable_ids=count)[0][3:] for count in (2, 11)}
    assert set(new[2]) <= {0, 1} < set(new[11]) | {0, 1}


def test_a_prompt_may_fill_the_context_to_the_last_token():
    start = prompt(35)
    assert len(continued([start], 5, temperature=0)[0]) == CONFIG.context_length


def test_no_new_tokens_gives_the_prompts_back_and_leaves_them_alone():
    prompts = [prompt(3), prompt(7)]
    result = continued(prompts, 0)
    assert result == [prompt(3), prompt(7)]
    result[0].append(1)
    assert prompts == [prompt(3), prompt(7)]


def test_the_prompts_passed_in_are_not_changed():
    start = prompt(3)
    continued([start], 2)
    assert start == prompt(3)


def test_ids_may_be_numpy_arrays():
    assert continued([np.array(prompt(3))], 2) == continued([prompt(3)], 2)
    assert continued([prompt(3)], np.int64(2)) == continued([prompt(3)], 2)
    assert continued(np.array([prompt(3), prompt(3, seed=1)]), 2) == continued([prompt(3), prompt(3, seed=1)], 2)


def test_a_key_gives_the_same_ids_again_and_another_key_others():
    first, again = (continued([prompt(3)], 20) for _ in range(2))
    other = generate(CONFIG, PARAMS, [prompt(3)], max_new_tokens=20, key=jax.random.key(6)).ids
    assert first == again
    assert first != other


def test_top_k_of_one_is_greedy_whatever_the_key():
    assert continued([prompt(3)], 10, top_k=1) == continued([prompt(3)], 10, temperature=0)


@pytest.mark.parametrize(
    ("prompts", "options", "message"),
    [
        ([], {}, r"prompts: expected at least one list of ids, got \[\]; write \[\[0, 1, 2\]\]"),
        (3, {}, "prompts: expected at least one list of ids, got 3"),
        ([0, 1], {}, r"prompts\[0\]: expected a list of whole numbers, got 0; .* one row on its own as \[\[0, 1, 2"),
        ([[[1], [2, 3]]], {}, r"prompts\[0\]: expected a list of whole numbers, got \[\[1\], \[2, 3\]\]"),
        ([[1], []], {}, "prompt 1 is empty; give at least one token"),
        ([[1], [2, 11]], {}, r"prompts\[1\]\[1\] is 11, outside the vocabulary 0\.\.10"),
        ([[-1]], {}, r"prompts\[0\]\[0\] is -1, outside the vocabulary 0\.\.10"),
        ([[1.5]], {}, r"prompts\[0\]: expected a list of whole numbers, got \[1\.5\]; encode text with the model's"),
        (["hello"], {}, r"prompts\[0\]: expected a list of whole numbers, got 'hello'"),
        ([[[1]]], {}, r"prompts\[0\]: expected a list of whole numbers, got \[\[1\]\]"),
        ([[1]], {"max_new_tokens": -1}, "max_new_tokens: expected at least 0, got -1"),
        ([[1]], {"max_new_tokens": 3.0}, r"max_new_tokens: expected a whole number, got 3\.0; use int"),
        ([[1]], {"max_new_tokens": True}, "max_new_tokens: expected a whole number, got True"),
        ([[1]], {"context_policy": "wrap"}, "context_policy: expected 'stop' or 'crop', got 'wrap'"),
        ([[1]], {"temperature": -1}, "temperature: expected a number of at least 0"),
        ([[1]], {"top_k": 0}, "top_k: expected a whole number of at least 1"),
    ],
)
def test_a_wrong_request_is_refused_with_what_was_got(prompts, options, message):
    with pytest.raises(RequestError, match=message):
        generate(CONFIG, PARAMS, prompts, **{"max_new_tokens": 1, "key": KEY} | options)


@pytest.mark.parametrize(("length", "new", "room"), [(35, 6, 5), (40, 1, 0), (60, 3, 0)])
def test_a_request_above_the_context_is_refused_with_its_numbers(length, new, room):
    message = (
        f"prompts\\[1\\]: {length} tokens \\+ {new} new = {length + new}, above the context of 40; "
        f"ask for at most {room} new tokens"
    )
    with pytest.raises(RequestError, match=message):
        continued([prompt(2), prompt(length)], new)


def test_a_model_whose_logits_are_not_finite_is_refused_instead_of_sampled():
    broken = PARAMS | {"final_norm": {name: np.full_like(x, np.nan) for name, x in PARAMS["final_norm"].items()}}
    with pytest.raises(WorkError, match="logits of new token 0 are not finite"):
        generate(CONFIG, broken, [[0, 1]], max_new_tokens=2, temperature=0, key=KEY)
