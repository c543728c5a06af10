"""`jaxgpt eval` on runs and on models of others, and on texts that are not what they were."""

import dataclasses
import json
import math

import jax
import numpy as np
import pytest
from small_models import random_parameters

import jaxgpt
from jaxgpt.data import CharacterTokenizer, Corpus
from jaxgpt.data.token_file import write_token_file
from jaxgpt.data.tokenizer.special import with_roles
from jaxgpt.runs.directory import RunDirectory

TEXT = "hello world\n" * 10
FRACTION = 0.25
APPLY = jax.jit(jaxgpt.apply)


@pytest.fixture
def measured(command):
    """Return a function that runs `jaxgpt eval ARGUMENTS --json` and returns the object."""

    def run(*arguments):
        code, out, err = command("eval", *arguments, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return run


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def trained(tmp_path, model, tokenizer, text_file):
    """The path of a run that says it was trained on the text."""
    path = tmp_path / "trained"
    jaxgpt.save(path, *model, tokenizer)
    manifest = RunDirectory.open(path).manifest
    data = manifest.config.data.replace(path=str(text_file), validation_fraction=FRACTION)
    config = dataclasses.replace(manifest.config, data=data)
    identity = Corpus.of(TEXT, str(text_file)).identity
    dataclasses.replace(manifest, config=config, data=identity).write(path)
    return path


def loss_by_hand(model, ids, stride=16):
    """Mean over whole windows of 16, and how many they are."""
    config, params = model
    starts = range(0, len(ids) - 16, stride)
    rows = np.stack([ids[start : start + 17] for start in starts])
    padded = np.pad(rows[:, :-1], ((0, 32 - len(rows)), (0, 0)))  # one compiled program serves every test
    logits = np.asarray(APPLY(config, params, padded), np.float64)[: len(rows)]
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    nats = -np.take_along_axis(log_p, rows[:, 1:, None], axis=-1)[..., 0]
    return np.concatenate([nats[0], nats[1:, 16 - stride :].ravel()]).mean(), len(rows)


def test_a_run_is_measured_on_all_of_its_own_text(measured, trained, model, tokenizer, text_file):
    result = measured(trained)
    loss, windows = loss_by_hand(model, tokenizer.encode(TEXT))
    assert result["nats_per_token"]["value"] == pytest.approx(loss, rel=1e-6)
    assert result["perplexity"]["value"] == pytest.approx(math.exp(loss), rel=1e-6)
    assert result["bits_per_byte"]["value"] == pytest.approx(loss / math.log(2), rel=1e-6)
    assert result["windows"] == windows == 7
    assert result["text"] == Corpus.of(TEXT, str(text_file)).identity
    expected = {"split": "all", "context": 16, "stride": 16, "tokens": 112, "left_over": 7, "bytes": 112, "step": 0}
    assert expected.items() <= result.items()
    assert result["trained_share"] == 1 - FRACTION


def test_the_split_is_the_run_s_unless_the_command_line_says_otherwise(measured, trained, model, tokenizer):
    own, other = (
        measured(trained, "--split", "val"),
        measured(trained, "--split", "val", "--validation-fraction", 0.5),
    )
    for result, fraction in ((own, FRACTION), (other, 0.5)):
        loss, windows = loss_by_hand(model, tokenizer.encode(TEXT[int(len(TEXT) * (1 - fraction)) :]))
        assert result["nats_per_token"]["value"] == pytest.approx(loss, rel=1e-6)
        assert (result["validation_fraction"], result["windows"]) == (fraction, windows)
    assert measured(trained, "--split", "train")["windows"] == (len(TEXT) * 3 // 4 - 1) // 16


def test_another_text_and_a_stride_may_be_named(measured, trained, model, tokenizer, tmp_path):
    other = "world hello\n" * 5
    (tmp_path / "other.txt").write_text(other)
    result = measured(trained, "--data", "other.txt", "--stride", 5, "--batch-size", 3)
    loss, windows = loss_by_hand(model, tokenizer.encode(other), stride=5)
    assert result["nats_per_token"]["value"] == pytest.approx(loss, rel=1e-6)
    assert (result["windows"], result["stride"], result["trained_share"]) == (windows, 5, None)


def test_a_file_of_ids_is_measured_as_its_text_is(measured, refusal, trained, tokenizer, tmp_path):
    ids = tokenizer.encode(TEXT)
    write_token_file(tmp_path / "text.tokens", ids, tokenizer, source="a test")
    ids.astype("<u2").tofile(tmp_path / "text.bin")
    (tmp_path / "vocab.json").write_text(json.dumps(sorted(set(TEXT))))
    expected = measured(trained, "--split", "train")
    stored = measured(trained, "--split", "train", "--data", "text.tokens")
    raw = measured(trained, "--split", "train", "--data", "text.bin", "--tokenizer", "vocab.json")
    for result in (stored, raw):
        same = ("nats_per_token", "bits_per_byte", "bytes", "windows", "left_over")
        assert [result[name] for name in same] == [expected[name] for name in same]
        assert result["text"]["tokens"] == len(TEXT)
        assert result["trained_share"] is None
    message = refusal("eval", trained, "--data", "text.tokens", "--format", "uint16")
    assert message.startswith("--format uint16 means nothing without a file that has no header")
    message = refusal("eval", trained, "--data", "text.bin")
    assert message.startswith("--data text.bin holds uint16 ids without a header and nothing says which tokenizer")
    write_token_file(tmp_path / "other.tokens", [0, 1], CharacterTokenizer(("x", "y")), source="a test")
    message = refusal("eval", trained, "--data", "other.tokens")
    assert "was written with a tokenizer of 2 ids, in which id 0 means 'x', but the model has 9" in message


@pytest.fixture
def held_out(trained, tmp_path):
    """The path of a run that says it was trained on all of the text, and validated on another."""
    manifest, other = RunDirectory.open(trained).manifest, tmp_path / "held.txt"
    other.write_text(TEXT[5:60])
    data = dataclasses.replace(manifest.config.data, validation_fraction=0.1, validation_path=str(other))
    identities = {"training": [manifest.data], "validation": Corpus.of(TEXT[5:60], str(other)).identity}
    config = dataclasses.replace(manifest.config, data=data)
    dataclasses.replace(manifest, config=config, data=identities).write(trained)
    return trained


def test_a_run_with_a_file_for_validation_is_measured_on_all_of_it(command, measured, held_out, text_file, tokenizer):
    for split, windows, words in (("val", 3, "not trained on it"), ("train", 7, "trained on all of it")):
        result = measured(held_out, "--split", split)
        assert (result["split"], result["validation_fraction"], result["windows"]) == (split, None, windows)
        assert f"; all of it (the run was {words})" in command("eval", held_out, "--split", split)[1]
    another = text_file.with_name("another.txt")
    another.write_text(TEXT[:80])
    result = measured(held_out, "--data", another, "--split", "val", "--validation-fraction", "0.5")
    assert (result["split"], result["validation_fraction"], result["windows"]) == ("val", 0.5, 2)


def test_the_lines_say_the_same(command, measured, trained, text_file):
    code, out, err = command("eval", trained, "--split", "val", "--stride", 4)
    assert (code, err) == (0, "")
    result = measured(trained, "--split", "val", "--stride", 4)
    model, text, read, count, *quantities, note = out.splitlines()
    assert model == f"model: {result['model']}"
    assert text.startswith(
        f"text:  {text_file}, 120 characters, sha256 {result['text']['sha256'][:12]}; the last 0.25 "
    )
    assert text.endswith("(the run was trained on the first 0.75 of it)")
    assert read == "read:  4 windows of 16, one every 4, 28 tokens predicted, 1 left over"
    assert count == "count: 28 tokens, 28 bytes of UTF-8"
    for line, name in zip(quantities, ("nats_per_token", "perplexity", "bits_per_byte"), strict=True):
        assert line[:12].strip().replace("/", "_per_") == name
        value, error = map(float, line[12:].split(" ± "))
        assert value == pytest.approx(result[name]["value"], rel=1e-5)
        assert error == pytest.approx(result[name]["standard_error"], rel=0.05)
    assert note == "± is the standard error, from the spread between the windows, taken as independent"


def test_a_single_window_has_no_standard_error(command, measured, saved, tmp_path):
    (tmp_path / "short.txt").write_text(TEXT[:20])
    assert measured(saved, "--data", "short.txt")["nats_per_token"]["standard_error"] is None
    assert "± unknown" in command("eval", saved, "--data", "short.txt")[1]


def test_a_text_that_is_gone_or_changed_is_refused_and_may_be_named_again(refusal, measured, trained, text_file):
    before = measured(trained)
    moved = text_file.rename(text_file.with_name("moved.txt"))
    message = refusal("eval", trained)
    assert message.startswith("the run's own text (--data FILE names another): data.path: cannot read '")
    assert measured(trained, "--data", moved)["trained_share"] == 1 - FRACTION
    assert measured(trained, "--data", moved)["nats_per_token"] == before["nats_per_token"]
    text_file.write_text(TEXT.upper())
    assert "; give the recorded text with --data, or evaluate on another text" in refusal("eval", trained)


def test_a_model_without_a_text_or_a_tokenizer_says_which_option_names_it(refusal, measured, saved, model, tmp_path):
    assert refusal("eval", saved) == f"{saved} comes without a text; name one with --data FILE"
    jaxgpt.save(tmp_path / "bare", *model)
    (tmp_path / "text.txt").write_text(TEXT)
    message = refusal("eval", "bare", "--data", "text.txt")
    assert message == "bare holds no tokenizer; name the one it was trained with: --tokenizer PATH"
    (tmp_path / "vocab.json").write_text(json.dumps(sorted(set(TEXT))))
    named = measured("bare", "--data", "text.txt", "--tokenizer", "vocab.json")
    assert named["nats_per_token"] == measured(saved, "--data", "text.txt")["nats_per_token"]
    (tmp_path / "more.json").write_text(json.dumps([*sorted(set(TEXT)), "x"]))
    message = refusal("eval", "bare", "--data", "text.txt", "--tokenizer", "more.json")
    assert message.startswith("--tokenizer: the tokenizer has 10 ids, the model only 9; use the one that the model")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--split", "valid"], "argument --split: unknown choice 'valid'; did you mean 'val'? (all, train, val)"),
        (
            ["--validation-fraction", "0.5"],
            "--validation-fraction means nothing for all of the text; add --split val",
        ),
        (
            ["--split", "val", "--validation-fraction", "1"],
            "--validation-fraction: data.validation_fraction: expected below 1, got 1.0",
        ),
        (["--format", "uint16"], "--format uint16 means nothing without --data FILE; leave it out"),
        (["--stride", "17"], "stride: expected 1 to 16, the context, got 17; a longer one would skip tokens"),
        (["--stride", "some"], "argument --stride: expected a whole number, got 'some'"),
        (["--batch-size", "0"], "the batch size should be at least 1, got 0"),
        (["--data", "absent.txt"], "--data: cannot read 'absent.txt': No such file or directory"),
        (["--split", "val", "--validation-fraction", "0.005"], "the validation split has 1 tokens, but one window"),
        (["--strid", "3"], "unknown option '--strid'; did you mean '--stride'? (see jaxgpt eval --help)"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_request_is_refused(refusal, trained, options, message):
    assert refusal("eval", trained, *options).startswith(message)


def test_a_path_that_holds_no_model_is_refused(refusal, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    assert refusal("eval", "absent", "--data", "text.txt").startswith(
        "absent does not exist; expected a run directory"
    )


@pytest.mark.ci
def test_pairs_are_also_scored_by_what_is_written(command, measured, tmp_path):
    tokenizer = with_roles(CharacterTokenizer.train("abc"), ["bos", "eos"])
    config = jaxgpt.ModelConfig(
        family="encoder_decoder", vocab_size=5, context_length=8, width=8, layers=1, heads=2, head_bias=True
    )
    params = random_parameters(config)
    params["lm_head"]["bias"][:] = [0, 1e3, 0, 0, 0]  # it writes b and nothing else
    jaxgpt.save(tmp_path / "pairs", config, params, tokenizer)
    (tmp_path / "pairs.tsv").write_text("a\tbbbbbb\nb\tbbb\nc\tcab\nab\tbbbbbb\n")  # what never ends is never right
    result = measured("pairs", "--data", "pairs.tsv")
    assert (result["pairs"], result["stride"], result["tokens"], result["bytes"]) == (4, None, 22, 18)
    assert result["exact_match"]["value"] == 0
    lines = command("eval", "pairs", "--data", "pairs.tsv")[1].splitlines()
    assert lines[-2] == "exact match 0 ± 0"
    assert lines[-1] == "± is the standard error, from the spread between the pairs, taken as independent"


@pytest.fixture
def shakespeare(test_data):
    folder = test_data / "shakespeare-char-gpt2"
    expected = json.loads((folder / "expected.json").read_text())
    return [folder / "hf", "--tokenizer", folder / "vocab.json"], expected


@pytest.mark.ci
def test_a_gpt2_of_others_reaches_the_validation_loss_that_they_found(measured, shakespeare, shakespeare_path):
    arguments, expected = shakespeare
    result = measured(*arguments, "--data", shakespeare_path, "--split", "val")
    assert result["nats_per_token"]["value"] == pytest.approx(expected["val_loss_exact_nats_per_char"], abs=1e-4)
    assert (result["windows"], result["context"], result["left_over"]) == (expected["val_windows"], 64, 51)
    assert result["bytes"] == result["tokens"] == 64 * 1742


def test_more_to_look_back_on_lowers_the_loss_of_a_trained_model(measured, shakespeare, shakespeare_path, tmp_path):
    with open(shakespeare_path) as file:
        (tmp_path / "part.txt").write_text(file.read()[-64 * 40 - 1 :])
    side_by_side, overlapping = (
        measured(*shakespeare[0], "--data", "part.txt", "--stride", stride) for stride in (64, 8)
    )
    assert side_by_side["tokens"] == overlapping["tokens"] == 64 * 40
    difference = side_by_side["nats_per_token"]["value"] - overlapping["nats_per_token"]["value"]
    assert difference > side_by_side["nats_per_token"]["standard_error"] / 2
