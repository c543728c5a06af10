"""`jaxgpt generate` on an encoder and on an encoder_decoder."""

import json

import pytest
from small_models import random_parameters

import jaxgpt
from jaxgpt.cli.generate.asked import Asked
from jaxgpt.cli.generate.families import _room
from jaxgpt.data.tokenizer import CharacterTokenizer
from jaxgpt.data.tokenizer.special import with_roles
from jaxgpt.generation.fill import fill
from jaxgpt.generation.targets import write_targets
from jaxgpt.ops.keys import random_key

pytestmark = pytest.mark.ci  # compiles each family; tests/generation/test_families.py stays

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


def between_ends(result, tokenizer):
    """Return the ids of a target, once it has been asserted that its start and end token are there."""
    special, ids = tokenizer.special_ids, result["ids"]
    ended = result["stop_reason"] == "stop_id"
    assert (ids[0], special["eos"] in ids) == (special["bos"], ended)
    return ids[1 : len(ids) - ended]


def test_an_encoder_fills_the_masks_of_each_prompt(command, models):
    path, config, params, tokenizer = models["encoder"]
    code, out, err = command("generate", path, "--prompt", "he<mask>lo", "--prompt", "<mask>", "--quiet")
    mask_id = tokenizer.special_ids["mask"]
    rows = [[*TEXT.encode("he"), mask_id, *TEXT.encode("lo")], [mask_id]]
    expected = [tokenizer.decode(ids) for ids in fill(config, params, rows, mask_id=mask_id, key=KEY)]
    assert (code, out, err) == (0, "\n---\n".join(expected) + "\n", "")


def test_an_encoder_takes_no_id_that_its_tokenizer_lacks(command, tmp_path):
    tokenizer = with_roles(TEXT, ["mask"])
    config = jaxgpt.ModelConfig(
        family="encoder", vocab_size=30, context_length=16, width=8, layers=1, heads=2, head_bias=True
    )
    params = random_parameters(config)
    params["lm_head"]["bias"][25] = 100
    jaxgpt.save(tmp_path / "wide", config, params, tokenizer)
    code, out, err = command("generate", "wide", "--prompt", "he<mask>lo", "--quiet")
    assert (code, len(out), err) == (0, len("hello\n"), "")


def test_an_encoder_decoder_writes_a_target_for_each_source(command, models):
    path, *model = models["encoder_decoder"]
    arguments = ("--source", "hello", "--source", "old", "--prompt", "w", "--prompt", "or", "--max-new-tokens", 5)
    code, out, err = command("generate", path, *arguments, "--json", "--quiet")
    sources, beginnings = (
        [TEXT.encode(text).tolist() for text in texts] for texts in (("hello", "old"), ("w", "or"))
    )
    ids = write_targets(*model, sources, beginnings=beginnings, max_new_tokens=5, temperature=0, key=KEY)
    assert (code, err) == (0, "")
    results = json.loads(out)["results"]
    assert [between_ends(result, model[-1]) for result in results] == ids
    assert [(result["source"], result["prompt"]) for result in results] == [("hello", "w"), ("old", "or")]
    assert [result["text"][0] for result in results] == ["w", "o"]


def test_no_id_of_a_target_lies_outside_the_tokenizer_where_the_model_has_more(models):
    _, config, params, _ = models["encoder_decoder"]
    fewer = with_roles(CharacterTokenizer(("a", "b")), ["bos", "eos"])
    targets = write_targets(config, params, fewer, [[0], [1], [0, 1]], temperature=5.0, key=KEY)
    assert {token for ids in targets for token in ids} <= set(range(fewer.vocab_size))


def test_every_new_id_of_a_target_has_its_log_probability_the_end_token_too(command, tmp_path):
    tokenizer = with_roles(TEXT, ["bos", "eos"])
    config = jaxgpt.ModelConfig(
        family="encoder_decoder", vocab_size=tokenizer.vocab_size, context_length=16, width=8, layers=1, heads=2,
        head_bias=True,
    )  # fmt: skip
    params, special = random_parameters(config), tokenizer.special_ids
    params["lm_head"]["bias"][special["eos"]] = 100
    jaxgpt.save(tmp_path / "ending", config, params, tokenizer)
    _, out, _ = command("generate", "ending", "--source", "he", "--prompt", "wo", "--jsonl", "--logprobs")
    result = json.loads(out)
    assert result["ids"] == [special["bos"], *TEXT.encode("wo").tolist(), special["eos"]]
    assert (result["text"], len(result["logprobs"])) == ("wo", 1)


@pytest.fixture(scope="module")
def ending(tmp_path_factory):
    """(path, tokenizer) of a decoder that ends at once: its head's bias sees to it."""
    tokenizer = with_roles(TEXT, ["bos", "eos"])
    config = jaxgpt.ModelConfig(
        vocab_size=tokenizer.vocab_size + 3, context_length=300, width=8, layers=1, heads=2, head_bias=True
    )
    params, path = random_parameters(config), tmp_path_factory.mktemp("ending") / "model"
    params["lm_head"]["bias"][tokenizer.special_ids["eos"]] = 100
    jaxgpt.save(path, config, params, tokenizer)
    return path, tokenizer


@pytest.mark.parametrize(("options", "start"), [(["--bos"], ["bos"]), ([], [])], ids=["bos", "plain"])
def test_a_decoder_stops_at_its_end_token_and_special_tokens_at_the_ends_are_not_text(
    command, ending, options, start
):
    path, tokenizer = ending
    code, out, err = command("generate", path, "--prompt", "he", *options, "--json", "--quiet")
    assert (code, err) == (0, "")
    special = tokenizer.special_ids
    ids = [*(special[role] for role in start), *TEXT.encode("he").tolist(), special["eos"]]
    assert json.loads(out)["results"] == [
        {"prompt": "he", "text": "he", "ids": ids, "stop_reason": "stop_id", "sample": 0}
    ]
    assert command("generate", path, "--bos", "--temperature", 0)[1] == "\n"  # an end behind a start: no text


def test_a_decoder_with_a_long_context_appends_256_tokens_by_default():
    config = jaxgpt.ModelConfig(vocab_size=2, context_length=300, width=8, layers=1, heads=2)
    asked = [Asked("a" * 44, None), Asked("a", None)]
    assert _room(config, asked, [[1] * 44, [1]], 256) == 256
    assert _room(config, asked, [[1] * 45, [1]], 256) == 255


def test_a_decoder_may_begin_with_its_start_token(command, models):
    path, *_ = models["decoder"]
    begun = [("--prompt", "he", "--bos"), ("--prompt", "he"), ("--bos",)]
    answers = [json.loads(command("generate", path, *options, "--json")[1])["results"][0] for options in begun]
    bos, he = TEXT.vocab_size, TEXT.encode("he").tolist()
    assert [answer["ids"][:3] for answer in answers[:2]] == [[bos, *he], [*he, answers[1]["ids"][2]]]
    assert answers[2]["ids"][0] == bos
    assert [answer["text"][:2] for answer in answers[:2]] == ["he", "he"]


def test_sources_and_masked_texts_may_lie_in_a_file(command, models, tmp_path):
    lines = [{"source": "hello"}, {"source": "old", "prompt": "w"}, {"source": "he", "prompt": ""}]
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, lines)))
    path, *model = models["encoder_decoder"]
    code, out, err = command("generate", path, "--prompts", "s.jsonl", "--jsonl", "--batch-size", 2, "--quiet")
    sources = [TEXT.encode(line["source"]).tolist() for line in lines]
    beginnings = [TEXT.encode(line.get("prompt", "")).tolist() for line in lines]
    ids = write_targets(*model, sources, beginnings=beginnings, max_new_tokens=14, temperature=0, key=KEY)
    results = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert [between_ends(result, model[-1]) for result in results] == ids
    assert [{"source": result["source"]} | _prompt(result) for result in results] == lines

    (tmp_path / "m.jsonl").write_text('"<mask>"\n"he<mask>"\n"<mask>o"\n')
    path = models["encoder"][0]
    drawn = ("--temperature", 2, "--seed", 3, "--quiet")
    texts = [command("generate", path, "--prompts", "m.jsonl", "--batch-size", size, *drawn)[1] for size in (2, 3)]
    assert texts[0] == texts[1]
    assert [len(text) for text in texts[0].removesuffix("\n").split("\n---\n")] == [1, 3, 2]


def _prompt(result):
    return {"prompt": result["prompt"]} if "prompt" in result else {}


def test_a_single_target_comes_as_it_is_written_and_the_source_counts_as_read(command, models):
    path, *model = models["encoder_decoder"]
    code, out, err = command("generate", path, "--source", "hello", "--prompt", "w")
    [ids] = write_targets(
        *model, [TEXT.encode("hello")], beginnings=[TEXT.encode("w")], max_new_tokens=14, temperature=0, key=KEY
    )
    assert (code, out) == (0, model[-1].decode(ids) + "\n")
    assert err.startswith("prompt: 7 tokens, ")  # a source of 5, the start token and the beginning


@pytest.mark.parametrize(
    ("family", "line", "words"),
    [
        (
            "encoder_decoder",
            '"he"',
            'p.jsonl line 1: an encoder_decoder writes what belongs to a source; write {"sou',
        ),
        ("encoder_decoder", '{"source": ""}', "p.jsonl line 1: source: it is empty; give at least one token"),
        (
            "encoder_decoder",
            '{"source": "hhhhhhhhhhhhhhhhh"}',
            "line 1: source: it has 17 tokens, above the context ",
        ),
        ("encoder", '{"source": "he"}', 'p.jsonl line 1: an encoder fills in masked tokens; write {"prompt": ...}'),
        ("encoder", '"he"', "p.jsonl line 1: prompt: it has no <mask> where a token is hidden"),
        ("encoder", '"<mask>hhhhhhhhhhhhhhhh"', "p.jsonl line 1: prompt: it has 17 tokens, above the context of 16"),
    ],
)
def test_a_line_that_does_not_fit_the_family_is_refused(refusal, models, tmp_path, family, line, words):
    (tmp_path / "p.jsonl").write_text(line)
    assert words in refusal("generate", models[family][0], "--prompts", "p.jsonl")


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
        (
            "encoder",
            ["--prompt", "<mask>", "--n", 2],
            "--n means nothing for a model of family encoder; leave it out",
        ),
        ("encoder", ["--prompt", "<mask>", "--min-p", 0.1], "--min-p means nothing for a model of family encoder"),
        ("encoder", ["--prompt", "<mask>", "--repetition-penalty", 2], "--repetition-penalty means nothing for a"),
        ("encoder", ["--prompt", "<mask>", "--stop", "h"], "--stop means nothing for a model of family encoder"),
        ("encoder", ["--prompt", "<mask>", "--lookup"], "--lookup means nothing for a model of family encoder"),
        ("encoder", ["--prompt", "<mask>", "--json", "--logprobs"], "--logprobs means nothing for a model of family"),
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
