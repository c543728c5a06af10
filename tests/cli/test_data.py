"""`jaxgpt data`: a tokenizer learned from a text, written once, and trained with."""

import json

import pytest

from jaxgpt.data import tokenizer_from_path

TEXT = "ROMEO: But soft, what light through yonder window breaks?\nJULIET: Ay me, what light?\n" * 40


@pytest.fixture
def text_file(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    return "text.txt"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]], ids=str)
def test_data_alone_names_its_commands(command, arguments):
    code, out, err = command("data", *arguments)
    assert (code, err) == (0, "")
    assert "  tokenizer learn a byte-level BPE from a text\n" in out


def test_a_tokenizer_is_learned_written_and_measured(command, text_file, tmp_path):
    special = ["--special", "<|endoftext|>", "--special", "<pad>"]
    code, out, err = command(
        "data", "tokenizer", "--text", text_file, "--vocab-size", 300, "--out", "a.json", *special
    )
    assert (code, err) == (0, "")
    tokenizer = tokenizer_from_path(tmp_path / "a.json")
    tokens = len(tokenizer.encode(TEXT))
    assert tokenizer.vocab_size == 300
    assert tokenizer.special_ids == {"bos": 298, "eos": 298, "pad": 299}
    assert out == (
        "a.json: 300 ids, bos 298, eos 298, pad 299\n"
        f"this text: 3,400 characters, {tokens:,} tokens, {3400 / tokens:.2f} characters per token\n"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "text.txt"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--text": "gone.txt"}, "--text: cannot read 'gone.txt': No such file or directory; give one readable"),
        ({"--vocab-size": "many"}, "argument --vocab-size: expected a whole number, got 'many'"),
        ({"--vocab-size": 100}, "a vocabulary of 100 is too small: 256 bytes and 0 special tokens need at least 256"),
        ({"--vocab-size": 9000}, "the text is too short or too uniform for 9000 ids: "),
        (
            {"--out": "text.txt"},
            "--out text.txt is there already, and nothing is overwritten; name another file or m",
        ),
        ({"--out": "."}, "--out . is a folder; name a file, such as tokenizer.json"),
        ({"--out": "no/a.json"}, "--out no/a.json: there is no folder no; make it, or name another file"),
        (
            {"--speical": "<s>"},
            "unknown option '--speical'; did you mean '--special'? (see jaxgpt data tokenizer --h",
        ),
        ({"--special": ""}, "special token '' is empty or there twice; give each a name of its own"),
    ],
    ids=str,
)
def test_a_wrong_request_is_refused_and_writes_nothing(refusal, text_file, changes, message):
    options = {"--text": text_file, "--vocab-size": 300, "--out": "a.json"} | changes
    assert refusal("data", "tokenizer", *(part for pair in options.items() for part in pair)).startswith(message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["tokeniser"],
            "unknown data command 'tokeniser'; did you mean 'tokenizer'? (commands: tokenizer, prepare, show)",
        ),
        (["--tokenizer"], "unknown option '--tokenizer' (see jaxgpt data --help)"),
        (["tokenizer"], "the following arguments are required: --text, --vocab-size, --out (see jaxgpt data tokeni"),
    ],
    ids=str,
)
def test_a_command_that_is_not_there_is_refused_with_the_nearest(refusal, arguments, message):
    assert refusal("data", *arguments).startswith(message)


def test_a_full_disk_is_said_in_one_line(command, text_file, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    code, out, err = command("data", "tokenizer", "--text", text_file, "--vocab-size", 300, "--out", "a.json")
    assert (code, out) == (1, "")
    assert err.startswith("jaxgpt: cannot write a.json: No space left on device; free space")
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


@pytest.mark.ci  # trains and generates: eight seconds of compilation
def test_a_model_is_trained_with_it_and_continues_a_prompt_when_the_file_is_gone(command, text_file, tmp_path):
    command("data", "tokenizer", "--text", text_file, "--vocab-size", 300, "--out", "a.json")
    small = {"context_length": 8, "width": 8, "layers": 1, "heads": 2}
    options = [f"--model.{name}={value}" for name, value in small.items()]
    options += ["--train.steps=1", "--train.batch_size=2", "--train.eval_batches=1", "--train.sample_tokens=3"]
    code, _, err = command("train", "--out", "run", "--data.path", text_file, "--data.tokenizer", "a.json", *options)
    assert (code, err) == (0, "")
    (tmp_path / "a.json").unlink()
    code, out, err = command("generate", "run", "--prompt", "ROMEO:", "--max-new-tokens", 3, "--json", "--quiet")
    assert (code, err) == (0, "")
    [result] = json.loads(out)["results"]
    assert result["text"].startswith("ROMEO:")
