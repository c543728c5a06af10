"""`jaxgpt generate` on an encoder and on an encoder_decoder."""

import json

import pytest
from small_models import random_parameters

import jaxgpt
from jaxgpt.data.tokenizer import CharacterTokenizer
from jaxgpt.data.tokenizer.special import with_roles
from jaxgpt.generation.fill import fill
from jaxgpt.generation.targets import write_targets
from jaxgpt.ops.keys import random_key

TEXT = CharacterTokenizer.train("hello world")
KEY = random_key(0)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """{family: (path, config, params, tokenizer)} of models that have learned nothing."""
    made = {}
    for family, roles in (("decoder", ["bos"]), ("encoder", ["mask"]), ("encoder_decoder", ["bos", "eos"])):
        tokenizer = with_roles(TEXT, roles)
        config = jaxgpt.ModelConfig(
            family=family, vocab_size=tokenizer.vocab_size, context_length=16, width=8, layers=1, heads=2
        )
        params, path = random_parameters(config), tmp_path_factory.mktemp("families") / family
        jaxgpt.save(path, config, params, tokenizer)
        made[family] = path, config, params, tokenizer
    return made


def test_an_encoder_fills_the_masks_of_each_prompt(command, models):
    path, config, params, tokenizer = models["encoder"]
    code, out, err = command("generate", path, "--prompt", "he<mask>lo", "--prompt", "<mask>")
    mask_id = tokenizer.special_ids["mask"]
    rows = [[*TEXT.encode("he"), mask_id, *TEXT.encode("lo")], [mask_id]]
    expected = [tokenizer.decode(ids) for ids in fill(config, params, rows, mask_id=mask_id)]
    assert (code, out, err) == (0, "\n---\n".join(expected) + "\n", "")


def test_an_encoder_decoder_writes_a_target_for_each_source(command, models):
    path, *model = models["encoder_decoder"]
    arguments = ("--source", "hello", "--source", "old", "--prompt", "w", "--prompt", "or", "--max-new-tokens", 5)
    code, out, err = command("generate", path, *arguments, "--json")
    sources, beginnings = (
        [TEXT.encode(text).tolist() for text in texts] for texts in (("hello", "old"), ("w", "or"))
    )
    ids = write_targets(*model, sources, beginnings=beginnings, max_new_tokens=5, temperature=0, key=KEY)
    assert (code, err) == (0, "")
    results = json.loads(out)["results"]
    assert [result["ids"] for result in results] == ids
    assert [result["prompt"] for result in results] == ["hello", "old"]
    assert [result["text"][0] for result in results] == ["w", "o"]


def test_a_decoder_may_begin_with_its_start_token(command, models):
    path, *_ = models["decoder"]
    with_bos, without = (command("generate", path, "--prompt", "he", *extra)[1] for extra in (["--bos"], []))
    assert with_bos.startswith("<bos>he")
    assert without.startswith("he")
    assert command("generate", path, "--bos", "--max-new-tokens", 2)[1].startswith("<bos>")


@pytest.mark.parametrize(
    ("family", "arguments", "words"),
    [
        ("decoder", ["--source", "he"], "--source means nothing for a model of family decoder"),
        ("encoder", [], "give a --prompt with <mask> where one is hidden"),
        (
            "encoder",
            ["--prompt", "he", "--max-new-tokens", 3],
            "--max-new-tokens means nothing for a model of family",
        ),
        ("encoder", ["--prompt", "hez"], "--prompt hez: character 'z'"),
        ("encoder", ["--prompt", "he"], "--prompt he: it has no <mask> where a token is hidden"),
        ("encoder", ["--prompt", "<mask>", "--max-new-tokens", 0], "--max-new-tokens means nothing for"),
        ("encoder_decoder", ["--prompt", "he"], "give a --source"),
        ("encoder_decoder", ["--source", "he", "--prompt", "h", "--prompt", "e"], "2 prompts for 1 sources"),
        ("encoder_decoder", ["--source", "hez"], "--source hez: character 'z'"),
        ("encoder_decoder", ["--source", "he", "--bos"], "--bos means nothing for a model of family encoder_decoder"),
    ],
)
def test_what_means_nothing_for_a_family_is_refused(refusal, models, family, arguments, words):
    assert words in refusal("generate", models[family][0], *arguments)
