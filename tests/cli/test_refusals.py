"""Wrong requests to `jaxgpt` and `jaxgpt train`: one line that helps, nothing left behind, the right exit code."""

import pytest
from program import run_program

from jaxgpt.config import RequestError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["trian"],
            "unknown command 'trian'; did you mean 'train'? (commands: train, generate, eval, inspect, plot, "
            "params, import, export, data, bench, lesson)",
        ),
        (["--jobs"], "unknown command '--jobs' (commands: "),
        (
            ["train", "--train.stpes", "3"],
            "unknown option '--train.stpes'; did you mean '--train.steps'? (see jaxgpt ",
        ),
        (["train", "--train.stpes=3"], "unknown option '--train.stpes'; did you mean '--train.steps'?"),
        (["train", "--model.wid", "3"], "unknown option '--model.wid'"),  # an abbreviation is not guessed
        (["train", "run"], "unknown argument 'run' (see jaxgpt train --help)"),
        (["train", "--train.steps"], "--train.steps: expected a value; one that begins with a dash is written "),
        (["train", "--optimizer.learning_rate", "-1e-3"], "--optimizer.learning_rate: expected a value; one that be"),
        (
            ["train", "--optimizer.learning_rate=-1e-3"],
            "command line: optimizer.learning_rate: expected above 0, got",
        ),
        (["train", "--train.steps="], "command line: train.steps: expected a whole number, got ''"),
        (["train", "--train.steps", "many"], "command line: train.steps: expected a whole number, got 'many'"),
        (["train", "--train.steps", "1.5"], "command line: train.steps: expected a whole number, got '1.5'"),
        (["train", "--train.steps", "0"], "command line: train.steps: expected at least 1, got 0"),
        (["train", "--train.seed", "-1"], "command line: train.seed: expected at least 0, got -1"),
        (["train", "--optimizer.beta1", "nan"], "command line: optimizer.beta1: expected a finite number, got nan"),
        (["train", "--model.tied_head", "yes"], "command line: model.tied_head: expected true or false, got 'yes'"),
        (
            ["train", "--model.gelu", "tahn"],
            "command line: model.gelu: expected exact | tanh, got 'tahn'; did you me",
        ),
        (["train", "--preset", "gtp2"], "unknown preset 'gtp2'; did you mean 'gpt2'? (presets: char-cpu, "),
        (["train", "--preset", ""], "unknown preset '' (presets: char-cpu, "),
        (
            ["train", "--train.batch_size", "9", "--mesh.data", "2"],
            "command line: mesh.data 2 does not divide the 9 ",
        ),
        (["train", "--train.init_from", "nowhere"], "train.init_from: nowhere does not exist; expected a run"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line_is_refused_with_what_to_change(refusal, arguments, message):
    assert refusal(*arguments).startswith(message)


def test_a_width_that_the_heads_do_not_divide_is_refused_with_those_that_fit(refusal):
    message = refusal("train", "--model.width", 130, "--model.heads", 4)
    assert message.startswith("command line: model.width 130 is not divisible by model.heads 4")
    assert "2 or 5 heads" in message
    assert "width 128 or 132" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[modle]\nwidth = 8", "a.toml: unknown section 'modle'; did you mean 'model'?"),
        ("[model]\nwidht = 8", "a.toml: unknown setting 'model.widht'; did you mean 'model.width'?"),
        ("width = 8", "a.toml: 'width' stands outside a section"),
        ("model = 8", "a.toml: 'model' is a section; write [model] and its fields below it"),
        ("[model]\nwidth = 'wide'", "file a.toml: model.width: expected a whole number, got 'wide'"),
        ("[train]\nsteps = true", "file a.toml: train.steps: expected a whole number, got True"),
        ("[train]\ninit_from = 3", "file a.toml: train.init_from: expected text or none, got 3"),
        ("[model]\nwidth = 130", "file a.toml: model.width 130 is not divisible by model.heads 4"),
        ("[model", "a.toml is not a TOML file: "),
    ],
    ids=repr,
)
def test_a_wrong_file_of_settings_is_refused_with_its_name(refusal, tmp_path, text, message):
    (tmp_path / "a.toml").write_text(text)
    assert refusal("train", "--config", "a.toml").startswith(message)


def test_a_file_of_settings_that_cannot_be_read_is_refused(refusal, tmp_path):
    message = refusal("train", "--config", "a.toml")
    assert message.startswith("cannot read the config file a.toml: No such file or directory; name a readable TOML")
    assert refusal("train", "--config", ".").startswith("cannot read the config file .: ")
    (tmp_path / "a.toml").write_bytes(b"# caf\xe9")
    assert refusal("train", "--config", "a.toml").startswith("a.toml is not a TOML file: ")


def test_the_command_line_may_complete_a_file_that_is_not_valid_by_itself(refusal, tmp_path):
    (tmp_path / "a.toml").write_text("[model]\nwidth = 130")
    message = refusal("train", "--config", "a.toml", "--model.heads", 5, "--data.path", "absent.txt")
    assert message.startswith("data.path: cannot read 'absent.txt'")


def test_none_among_several_files_is_no_file(refusal):
    message = refusal("train", "--data.path", "a.txt", "--data.path", "none")
    assert message == "command line: data.path: expected text or several or none, got ('a.txt', None)"


def test_the_first_setting_that_is_wrong_is_blamed_on_where_it_came_from(refusal, tmp_path):
    (tmp_path / "a.toml").write_text("[train]\nsteps = 0")
    assert refusal("train", "--config", "a.toml", "--train.seed", 3).startswith("file a.toml: train.steps: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "data.path: 'text.txt' is empty; give a file with text in it"),
        (b"caf\xe9 au lait", "data.path: 'text.txt' is not UTF-8: byte 0xE9 at offset 3"),
        (None, "data.path: cannot read 'text.txt': No such file or directory"),
        (b"to be or not" * 2, "the training split has 21 tokens, but model.context_length 64 needs at least 65"),
    ],
    ids=["empty", "not UTF-8", "missing", "shorter than the context"],
)
def test_a_text_that_cannot_be_learned_from_is_refused(refusal, tmp_path, content, message):
    if content is not None:
        (tmp_path / "text.txt").write_bytes(content)
    assert refusal("train", "--data.path", "text.txt").startswith(message)


def test_a_validation_split_shorter_than_the_context_is_refused(refusal, tmp_path):
    (tmp_path / "text.txt").write_text("to be or not to be, " * 10)
    message = refusal("train", "--data.path", "text.txt")
    assert message.startswith("the validation split has 20 tokens, but model.context_length 64 needs at least 65")


@pytest.fixture
def text_file(tmp_path):
    (tmp_path / "text.txt").write_text("to be or not to be, " * 100)
    return "text.txt"


def test_a_preset_with_the_vocabulary_of_its_model_says_how_to_take_the_texts(refusal, text_file):
    message = refusal("train", "--preset", "minigpt", "--data.path", text_file)
    assert message.startswith("model.vocab_size is 5, but the tokenizer has 8 ids; a new model has as many")
    assert "--model.vocab_size none takes the size from the tokenizer (a preset such as gpt2 fixes the" in message


def test_an_out_folder_that_holds_something_else_is_refused(refusal, tmp_path, text_file):
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "chapter.tex").write_text("all my work")
    message = refusal("train", "--data.path", text_file, "--out", "thesis")
    assert message == "thesis holds something else (chapter.tex); name a folder that is new or empty"


def test_an_out_that_is_a_file_is_refused(refusal, text_file):
    message = refusal("train", "--data.path", text_file, "--out", text_file)
    assert message.startswith("cannot make a run directory at text.txt: ")


def test_a_fine_tuning_that_asks_for_another_architecture_is_refused(refusal, tmp_path, saved):
    (tmp_path / "text.txt").write_text("hello world\n" * 100)
    (tmp_path / "a.toml").write_text(f"[model]\nwidth = 16\n[train]\ninit_from = '{saved}'")
    message = refusal("train", "--config", "a.toml", "--data.path", "text.txt")
    assert message.startswith(f"train.init_from {saved} has model.width = 8, this run asks for 16")


def test_a_model_brings_its_tokenizer_over_the_preset_s_but_not_over_one_that_is_named(refusal, tmp_path, saved):
    (tmp_path / "text.txt").write_text("hello world\n")  # too short, which is only seen once it is encoded
    (tmp_path / "a.toml").write_text("[data]\ntokenizer = 'bytes'")
    arguments = ("train", "--preset", "gpt2", "--train.init_from", saved, "--data.path", "text.txt")
    assert refusal(*arguments).startswith("the training split has ")
    for named in (("--data.tokenizer", "bytes"), ("--config", "a.toml")):
        assert refusal(*arguments, *named).startswith("data.tokenizer has 256 ids, ")


@pytest.mark.parametrize("place", ["before", "after"])
def test_debug_shows_the_traceback_above_the_message(command, place):
    arguments = ["params", "gpt3"]
    arguments.insert(0 if place == "before" else 2, "--debug")
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("Traceback (most recent call last):\n")
    assert f"{RequestError.__module__}.RequestError: unknown preset 'gpt3'" in err
    assert err.splitlines()[-1].startswith("jaxgpt: unknown preset 'gpt3'")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "jaxgpt: unknown command 'trian'"),
        (["train", "--data.path", "absent.txt"], "jaxgpt: data.path: cannot read 'absent.txt'"),
        (
            ["train", "--train.steps", "none"],
            "jaxgpt: command line: train.steps: expected a whole number, got 'none'",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_process_ends_with_2_and_one_line(tmp_path, arguments, message):
    done = run_program(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
