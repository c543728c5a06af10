"""`jaxgpt params`."""

import json
import re

import pytest

# Counted by hand from V = 50257, T = 1024, C = 768, F = 3072, L = 12.
GPT2 = {
    "token_embedding": 50257 * 768,
    "position_embedding": 1024 * 768,
    "blocks/ln1": 12 * 2 * 768,
    "blocks/attention": 12 * (4 * 768 * 768 + 4 * 768),
    "blocks/ln2": 12 * 2 * 768,
    "blocks/ffn": 12 * (2 * 768 * 3072 + 3072 + 768),
    "final_norm": 2 * 768,
}


def test_gpt2_has_its_known_number_of_parameters_bucket_by_bucket(command):
    code, out, err = command("params", "gpt2")
    assert (code, err) == (0, "")
    assert re.search(r"^total +124,439,808 +100\.0 %$", out, flags=re.MULTILINE)
    for name, size in GPT2.items():
        shown = name.replace("blocks/", "12 x ")
        assert re.search(rf"^{shown} .* {size:,} +\d+\.\d %$", out, flags=re.MULTILINE), shown
    assert "124,337,664" in out  # without biases, as papers also count it


def test_json_gives_the_same_buckets_which_sum(command):
    code, out, err = command("params", "gpt2", "--json")
    assert (code, err) == (0, "")
    count = json.loads(out)
    assert count["total"] == 124_439_808 == sum(bucket["total"] for bucket in count["buckets"])
    assert {bucket["name"]: bucket["total"] for bucket in count["buckets"]} == GPT2
    assert sum(bucket["share"] for bucket in count["buckets"]) == pytest.approx(1)
    assert {"count": 124_337_664, "reason": count["quoted"][0]["reason"]} in count["quoted"]


def test_a_preset_without_a_vocabulary_takes_its_size_from_the_option(command, refusal):
    assert refusal("params", "char-cpu") == (
        "preset char-cpu takes its vocabulary from the text; name its size with --vocab-size"
    )
    out = command("params", "char-gpu", "--vocab-size", 65, "--json")[1]
    # 6 blocks of width 384 as in GPT-2, 65 tokens, 256 positions, a tied head.
    assert json.loads(out)["total"] == 65 * 384 + 256 * 384 + 6 * (12 * 384**2 + 13 * 384) + 2 * 384


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["params"], "the following arguments are required: PRESET (see jaxgpt params --help)"),
        (["params", "gpt3"], "unknown preset 'gpt3'; did you mean 'gpt2'? (presets: char-cpu, char-gpu, gpt2, "),
        (["params", "gpt2", "gpt2-xl"], "unknown argument 'gpt2-xl' (see jaxgpt params --help)"),
        (["params", "gpt2", "--jsn"], "unknown option '--jsn'; did you mean '--json'? (see jaxgpt params --help)"),
        (["params", "gpt2", "--vocab-size", "2.5"], "argument --vocab-size: expected a whole number, got '2.5'"),
        (["params", "gpt2", "--vocab-size", "0"], "model.vocab_size: expected at least 1, got 0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_request_is_refused(refusal, arguments, message):
    assert refusal(*arguments).startswith(message)
