"""The other families train through the same command: they learn, resume exactly and show what they do."""

import jax
import numpy as np
import pytest

import jaxgpt
from jaxgpt.config import RequestError
from jaxgpt.runs.metrics import read_metrics
from jaxgpt.training import samples
from jaxgpt.training.material import gather_material
from jaxgpt.training.run import train

ENCODER = {"model.family": "encoder", "model.layers": 1, "train.steps": 4, "train.sample_tokens": 8}
PAIRS = {"model.family": "encoder_decoder", "train.steps": 4, "train.sample_tokens": 1}
WORDS = ["ab", "abc", "b", "cab", "bca", "ca", "acb", "cc", "ba", "aab"]


@pytest.fixture
def pairs_file(tmp_path):
    """Words and the same words backwards."""
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{word}\t{word[::-1]}\n" for word in WORDS))
    return str(path)


@pytest.fixture(params=["encoder", "encoder_decoder"])
def family(request, tiny, pairs_file):
    """Return a function of more settings: the family's config."""
    base = ENCODER if request.param == "encoder" else PAIRS | {"data.path": pairs_file}
    return lambda settings=(): tiny(base | dict(settings))


def losses(run):
    return [(line["step"], line["loss"]) for line in read_metrics(run / "metrics.jsonl") if "loss" in line]


@pytest.mark.ci
def test_stopped_and_resumed_is_never_stopped(family, tmp_path):
    straight = train(family(), out=tmp_path / "straight")
    train(family({"train.stop_after": 2}), out=tmp_path / "broken")
    resumed = train(family(), out=tmp_path / "broken")
    assert losses(tmp_path / "broken") == losses(tmp_path / "straight")
    for a, b in zip(jax.tree.leaves(straight.params), jax.tree.leaves(resumed.params), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.ci
def test_an_encoder_shows_a_text_with_masks_and_what_it_makes_of_them(tiny, tmp_path, capsys):
    train(tiny(ENCODER | {"data.mask_rate": 0.5}), out=tmp_path / "run")
    out = capsys.readouterr().out
    config, params, tokenizer = jaxgpt.load(tmp_path / "run")
    assert (config.family, tokenizer.special_ids) == ("encoder", {"mask": 28})
    masked, filled, text = (
        next(eval(line.split(name)[1]) for line in out.splitlines() if line.startswith(f"  {name}"))
        for name in ("masked", "filled", "text")
    )
    assert "<mask>" in masked
    assert "<mask>" not in filled
    assert len(filled) == len(text) == 8
    assert "50% hidden" in out
    assert f"jaxgpt generate {tmp_path / 'run'} '--prompt=" in out
    del params


@pytest.mark.ci
def test_an_encoder_decoder_shows_its_score_and_some_of_its_targets(tiny, pairs_file, tmp_path, capsys):
    config = tiny(PAIRS | {"data.path": pairs_file, "data.validation_fraction": 0.2})
    train(config, out=tmp_path / "run")
    out = capsys.readouterr().out
    assert "training on the first 8 pairs, validating on the last 2: 2 pairs" in out
    assert "exact match: 0 of 2 held-out pairs" in out
    assert "  'ba' -> " in out
    assert "(should be 'baa')" in out
    assert jaxgpt.load(tmp_path / "run")[2].special_ids == {"bos": 3, "eos": 4}


def test_an_encoder_is_shown_with_ids_that_its_tokenizer_has(tiny, monkeypatch):
    material = gather_material(tiny(ENCODER | {"data.mask_rate": 0.5}), None, pytest.fail)

    def fill(config, params, rows, **options):
        assert options["drawable_ids"] == material.tokenizer.vocab_size
        return rows

    monkeypatch.setattr(samples, "fill", fill)
    assert samples.sample_lines(material, {})[0].startswith("masks of 10 held-out texts filled in: 0 of ")


def test_the_rate_of_masks_is_the_one_asked_for(tiny):
    for rate in (0.15, 0.6):
        settings = ENCODER | {"model.context_length": 64, "data.mask_rate": rate}
        splits = gather_material(tiny(settings), None, pytest.fail).splits
        some = np.arange(400)
        counted = splits.train.batch(some, seed=0, draws_B=some)["weights_BT"]
        assert counted.mean() == pytest.approx(rate, abs=0.03)


def test_a_tokenizer_is_given_the_special_tokens_that_a_family_lacks(tiny, pairs_file):
    settings = {"data.path": pairs_file, "data.tokenizer": "bytes"}
    tokenizer = gather_material(tiny(PAIRS | settings), None, pytest.fail).tokenizer
    assert tokenizer.special_ids == {"bos": 256, "eos": 257}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"data.mask_rate": 0.3}, "data.mask_rate 0.3 means nothing with model.family decoder"),
        (PAIRS, "text.txt, line 1: expected source TAB target, got 0 TABs"),
    ],
)
def test_what_does_not_fit_the_family_is_refused(tiny, settings, words):
    with pytest.raises(RequestError, match=words):
        gather_material(tiny(settings), None, pytest.fail)


def test_a_split_without_pairs_is_refused(tiny, pairs_file):
    with pytest.raises(RequestError, match=r"has 10 pairs, of which .* 0.95 leaves none for training"):
        gather_material(tiny(PAIRS | {"data.path": pairs_file, "data.validation_fraction": 0.95}), None, pytest.fail)
