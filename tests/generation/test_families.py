"""Generation of the other families: a decoder that reads a source, and an encoder that fills in masks."""

import jax
import numpy as np
import pytest
import reference_numpy
from small_models import ARCHITECTURES, SMALL, random_ids, random_parameters

from jaxgpt import RequestError, WorkError
from jaxgpt.generation.fill import fill
from jaxgpt.generation.generate import generate

PAIRS = ARCHITECTURES["encoder_decoder"]
PAIRS_PARAMS = random_parameters(PAIRS)
SOURCES = [random_ids(PAIRS, 1, length, seed=length)[0].tolist() for length in (2, 5, 6)]
ENCODER = SMALL.replace(family="encoder")
ENCODER_PARAMS = random_parameters(ENCODER)
MASK = 10
KEY = jax.random.key(0)


def greedy(source, prompt, new):
    ids = list(prompt)
    for _ in range(new):
        logits = reference_numpy.forward(PAIRS, PAIRS_PARAMS, np.array([ids]), source=np.array([source]))
        ids.append(int(logits[0, -1].argmax()))
    return ids


def translated(prompts, sources, **options):
    options = {"max_new_tokens": 4, "temperature": 0, "key": KEY} | options
    return generate(PAIRS, PAIRS_PARAMS, prompts, sources=sources, **options).ids


def test_targets_are_those_of_a_full_forward_on_each_source_alone():
    assert translated([[1], [1, 2], [1]], SOURCES) == [
        greedy(source, prompt, 4) for source, prompt in zip(SOURCES, ([1], [1, 2], [1]), strict=True)
    ]


def test_a_row_ends_with_its_stop_id_and_the_others_go_on():
    full = translated([[1]] * 3, SOURCES)
    stop = full[0][2]
    cut = translated([[1]] * 3, SOURCES, stop_ids={stop})
    for row, stopped in zip(full, cut, strict=True):
        end = row.index(stop, 1) + 1 if stop in row[1:] else len(row)
        assert stopped == row[:end]
    assert len(cut[0]) <= 3


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        (None, "one list of ids for each of the 3 prompts, got none"),
        (SOURCES[:2], "for each of the 3 prompts, got 2 sources"),
        ([*SOURCES[:2], []], "source 2 is empty"),
        ([*SOURCES[:2], [11]], r"sources\[2\]\[0\] is 11, outside the vocabulary"),
        ([*SOURCES[:2], [0] * 7], "source 2 has 7 tokens, above the context of 6"),
    ],
)
def test_sources_that_do_not_fit_are_refused(sources, words):
    with pytest.raises(RequestError, match=words):
        translated([[1]] * 3, sources)


def test_a_target_is_not_cropped_at_its_start():
    with pytest.raises(RequestError, match="would cut off a target's start token"):
        translated([[1]] * 3, SOURCES, context_policy="crop")


def test_each_family_is_sent_to_its_own_function():
    with pytest.raises(RequestError, match="family decoder reads none"):
        generate(SMALL, random_parameters(SMALL), [[1]], sources=[[1]], max_new_tokens=1, key=KEY)
    with pytest.raises(RequestError, match=r"fill in masked tokens with jaxgpt\.fill"):
        generate(ENCODER, ENCODER_PARAMS, [[1]], max_new_tokens=1, key=KEY)
    with pytest.raises(RequestError, match="family decoder; only an encoder"):
        fill(SMALL, ENCODER_PARAMS, [[MASK]], mask_id=MASK, key=KEY)


ROWS = [[1, MASK, 3, MASK, 2], [MASK], [MASK, 5]]


def filled(rows=ROWS, params=ENCODER_PARAMS, **options):
    return fill(ENCODER, params, rows, **{"mask_id": MASK, "key": KEY} | options)


def test_masks_are_filled_with_the_likeliest_tokens_of_each_row_alone():
    for row, answer in zip(ROWS, filled(), strict=True):
        logits = reference_numpy.forward(ENCODER, ENCODER_PARAMS, np.array([row]))[0]
        logits[:, MASK] = -np.inf
        assert answer == [int(scores.argmax()) if i == MASK else i for i, scores in zip(row, logits, strict=True)]


@pytest.mark.parametrize("mask", [0, 1, 4, MASK])
def test_only_ids_below_the_drawable_ones_are_taken_and_never_the_mask(mask):
    rows = [[mask if token == MASK else token + 4 for token in row] for row in ROWS]  # as long, with other masks
    scores = [reference_numpy.forward(ENCODER, ENCODER_PARAMS, np.array([row]))[0] for row in rows]
    for drawable in range(2, 12):
        ids = [token for token in range(drawable) if token != mask]
        for row, answer, scores_TV in zip(
            rows, filled(rows, mask_id=mask, drawable_ids=drawable), scores, strict=True
        ):
            best = [ids[i] for i in scores_TV[:, ids].argmax(axis=1)]
            assert answer == [best[i] if token == mask else token for i, token in enumerate(row)]


@pytest.mark.ci
def test_at_a_high_temperature_every_token_is_drawn_but_the_mask():
    many = [filled([[MASK] * 6], temperature=1e6, key=key)[0] for key in jax.random.split(KEY, 40)]
    counts = np.bincount(np.ravel(many), minlength=11)
    assert counts[MASK] == 0
    assert (counts[:10] > 5).all()


def test_what_cannot_be_filled_is_refused():
    with pytest.raises(RequestError, match=r"key: expected a PRNG key such as jax\.random\.key\(0\), got 0"):
        filled(key=0)
    for rows, words in (
        ([[MASK], []], "row 1 is empty"),
        ([], "at least one list of ids"),
        ([[MASK] * 7], "row 0 has 7 tokens, above the context of 6"),
        ([[MASK, 11]], r"rows\[0\]\[1\] is 11, outside the vocabulary"),
        ([[MASK, -1]], r"rows\[0\]\[1\] is -1, outside the vocabulary"),
        ([[MASK, 1.5]], r"rows\[0\]: expected a list of whole numbers"),
        ([[1, 2]], "row 0 has no mask token"),
    ):
        with pytest.raises(RequestError, match=words):
            filled(rows)
    with pytest.raises(RequestError, match=r"mask_ids\[0\]\[0\] is 11, outside"):
        filled(mask_id=11)
    with pytest.raises(RequestError, match="drawable_ids: the model has 11 ids, got 12; use at most those"):
        filled(drawable_ids=12)
    with pytest.raises(RequestError, match="the only id to take, 0, is the mask's; expected more drawable ids"):
        filled([[0]], mask_id=0, drawable_ids=1)
    broken = ENCODER_PARAMS | {"token_embedding": np.full_like(ENCODER_PARAMS["token_embedding"], np.nan)}
    with pytest.raises(WorkError, match="not finite"):
        filled([[MASK]], broken)
