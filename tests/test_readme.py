"""Every command and the example in the README run; every preset says what it is known to reach."""

import re
import shlex
import subprocess
import sys
import tomllib
import venv

import jax
import pytest
from program import ROOT, run_program

import jaxgpt
from jaxgpt.data.tokenizer import CharacterTokenizer
from jaxgpt.interop.hugging_face import export

README = (ROOT / "README.md").read_text()
SHELL_BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.S)
COMMANDS = [line.split("#")[0].strip() for block in SHELL_BLOCKS for line in block.splitlines() if line.strip()]
SHORT = ["--train.steps", "3", "--train.eval_batches", "1"]  # the same command, fewer steps


@pytest.mark.ci
def test_the_python_example_runs():
    (code,) = re.findall(r"<!-- python example -->\n```python\n(.*?)```", README, re.S)
    names = {}
    exec(code, names)
    assert names["logits"].shape == (2, 4, 5)
    assert names["losses"].shape == (8,)


@pytest.mark.ci
def test_the_attention_example_runs():
    (code,) = re.findall(r"<!-- attention example -->\n```python\n(.*?)```", README, re.S)
    names = {}
    exec(code, names)
    assert names["local"].shape == (2, 8, 4, 16)


@pytest.mark.ci
def test_the_training_example_runs(folder, monkeypatch):
    (code,) = re.findall(r"<!-- training example -->\n```python\n(.*?)```", README, re.S)
    assert code.count('"train.steps": 200') == 1
    monkeypatch.chdir(folder)
    names = {}
    exec(code.replace('"train.steps": 200', '"train.steps": 3, "train.sample_tokens": 0'), names)
    assert names["config"].width == 128


def test_the_two_commands_stand_first_and_make_their_own_environment():
    assert [command.split(" && ")[0] for command in COMMANDS[:2]] == [
        "python3 -m venv .venv",
        "python3 -m venv .venv-test",
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a text as the commands expect it."""
    path = tmp_path_factory.mktemp("readme")
    line = "ROMEO: But soft, what light through yonder window breaks?\nJULIET: Ay me.\n"
    (path / "input.txt").write_text(line * 40 + README)  # with enough words to learn a tokenizer from
    (path / "more.txt").write_text(line * 80)
    (path / "prompts.jsonl").write_text('"ROMEO:"\n{"prompt": "JULIET:"}\n')
    tokenizer = CharacterTokenizer.train((path / "input.txt").read_text())
    config = jaxgpt.ModelConfig(vocab_size=tokenizer.vocab_size, context_length=8, width=8, layers=1, heads=2)
    (path / "path" / "to").mkdir(parents=True)
    params = jaxgpt.init(config, key=jax.random.key(0))
    export(path / "path" / "to" / "gpt2", config, params, tokenizer, warn=pytest.fail)
    return path


@pytest.mark.ci
@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("jaxgpt ")])
def test_a_command_runs_as_it_stands(command, folder):
    arguments = shlex.split(command)[1:]
    finished = run_program(*arguments, *(SHORT if arguments[0] == "train" else []), cwd=folder)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip()


def test_every_promise_names_a_test_that_is_there():
    rows = re.findall(r"^\|.*\| (`tests/.*?) \|$", README, re.M)
    assert len(rows) > 8
    for row in rows:
        for path in re.findall(r"`(tests/\S+)`", row):
            assert (ROOT / path).exists(), path


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.toml")), ids=lambda path: path.stem)
def test_a_preset_begins_with_its_result_or_with_its_size_and_that_it_was_not_run(path):
    text = path.read_text()
    head = text.split("[", 1)[0]
    assert head.startswith("# ")
    measured = re.search(r"validation loss [\d.]+", head) and "jaxgpt train" in head
    counted = re.search(r"^# [\d,]+ parameters.*not run", head)
    assert measured or counted
    tomllib.loads(text)


@pytest.mark.ci
def test_the_first_command_works_on_a_fresh_clone(tmp_path):
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    command = f"{COMMANDS[0]} {shlex.join(SHORT)}"  # tests/promises/test_first_minute.py trains to the end
    finished = subprocess.run(["bash", "-c", command], cwd=clone, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert "the run lies in runs/" in finished.stdout


@pytest.mark.ci
def test_a_wheel_works_in_an_empty_folder_presets_included(tmp_path):
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", wheel]
    subprocess.run(install, check=True)
    (site,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    (site / "libraries.pth").write_text(next(path for path in sys.path if path.endswith("site-packages")) + "\n")
    empty = tmp_path / "folder"
    empty.mkdir()
    program = tmp_path / "env" / "bin" / "jaxgpt"
    counted = subprocess.run([program, "params", "gpt2"], cwd=empty, capture_output=True, text=True, check=True)
    assert "124,439,808" in counted.stdout
    where = subprocess.run(
        [python, "-c", "import jaxgpt; print(jaxgpt.__file__)"], cwd=empty, capture_output=True, text=True, check=True
    )
    assert str(site) in where.stdout
    subprocess.run(
        [program, "train", *SHORT, "--train.sample_tokens", "0"], cwd=empty, check=True, capture_output=True
    )
