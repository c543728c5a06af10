"""`jaxgpt import` and `jaxgpt export`: what is read and written, said in two lines; nothing is written over."""

import json

import numpy as np
import pytest
from foreign_models import GPT2, gpt2_arrays, same_bits, write_safetensors
from small_models import random_parameters

import jaxgpt

CHARACTERS = ["a", "b", "c", "d", "e", "f", "g"]


def foreign_folder(tmp_path, *, wrapper="", tokenizer=True):
    path = tmp_path / "theirs"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(GPT2))
    write_safetensors(path / "model.safetensors", {wrapper + key: array for key, array in gpt2_arrays().items()})
    if tokenizer:
        (path / "vocab.json").write_text(json.dumps(CHARACTERS))
    return path


def test_a_folder_becomes_a_run_and_a_folder_again(command, tmp_path):
    foreign_folder(tmp_path, wrapper="_orig_mod.")
    code, out, err = command("import", "theirs", "run")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "read theirs: Hugging Face gpt2 folder, 28 keys, float32, prefix _orig_mod. stripped, 544 parameters, "
        "tokenizer with 7 ids",
        "wrote run: run directory; jaxgpt generate run continues a text with it",
    ]
    assert command("generate", "run", "--prompt", "a", "--max-new-tokens", 2)[0] == 0

    code, out, err = command("export", "run", "ours")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "read run: run directory, step 0, 544 parameters, tokenizer with 7 ids",
        "wrote ours: Hugging Face gpt2 folder, 28 keys, 544 parameters, float32",
    ]
    theirs, ours = jaxgpt.load(tmp_path / "theirs"), jaxgpt.load(tmp_path / "ours")
    assert same_bits(theirs[1], ours[1])
    assert (theirs[0], theirs[2]) == (ours[0], ours[2])


def test_nothing_is_written_over_and_nothing_is_read_for_it(refusal, tmp_path, saved):
    foreign_folder(tmp_path)
    for arguments in (("import", "theirs", "theirs"), ("export", saved, "theirs"), ("export", "absent", "theirs")):
        assert refusal(*arguments) == "theirs exists already; name a folder that is new or empty"


def test_a_run_is_no_import(refusal, saved):
    assert refusal("import", saved, "run") == f"{saved} is a run directory already; copy the folder"


def test_a_tokenizer_may_lie_elsewhere(command, tmp_path):
    foreign_folder(tmp_path, tokenizer=False)
    code, out, _ = command("import", "theirs", "bare")
    assert (code, "no tokenizer" in out) == (0, True)
    (tmp_path / "table.json").write_text(json.dumps(CHARACTERS))
    code, out, _ = command("import", "theirs", "run", "--tokenizer", "table.json")
    assert (code, "tokenizer with 7 ids" in out) == (0, True)
    assert jaxgpt.load(tmp_path / "run")[2].characters == tuple(CHARACTERS)
    assert command("export", "bare", "ours", "--tokenizer", "table.json")[0] == 0
    assert json.loads((tmp_path / "ours" / "vocab.json").read_text()) == CHARACTERS


def test_an_architecture_that_no_layout_holds_is_refused_and_nothing_is_left(command, tmp_path):
    config = jaxgpt.ModelConfig(vocab_size=7, context_length=4, width=4, layers=1, heads=2, head_bias=True)
    jaxgpt.save(tmp_path / "run", config, random_parameters(config))
    code, _, err = command("export", "run", "ours")
    assert code == 2
    assert err.endswith("the nearest, gpt2, cannot express model.head_bias true\n")
    assert not (tmp_path / "ours").exists()


def test_a_folder_with_a_padded_vocabulary_becomes_a_run(command, tmp_path):
    folder = foreign_folder(tmp_path)
    (folder / "vocab.json").write_text(json.dumps(CHARACTERS[:5]))
    assert command("import", "theirs", "run")[0] == 0
    config, _, tokenizer = jaxgpt.load(tmp_path / "run")
    assert (config.vocab_size, tokenizer.vocab_size) == (7, 5)
    assert command("generate", "run", "--prompt", "a", "--seed", 3, "--max-new-tokens", 4)[0] == 0


@pytest.mark.ci
def test_training_starts_from_a_folder(command, tmp_path):
    foreign_folder(tmp_path)
    (tmp_path / "text").write_text("abcdefg" * 40)
    options = {
        "train.init_from": "theirs", "data.path": "text", "train.steps": 1, "train.batch_size": 2,
        "optimizer.learning_rate": 1e-6, "optimizer.final_learning_rate": 0, "optimizer.warmup_steps": 0,
    }  # fmt: skip
    arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
    code, out, err = command("train", *arguments, "--out", "run")
    assert (code, err) == (0, "")
    assert f"train.init_from = {tmp_path / 'theirs'}" in out
    theirs, run = jaxgpt.load(tmp_path / "theirs"), jaxgpt.load(tmp_path / "run")
    assert (run[0], run[2]) == (theirs[0], theirs[2])
    assert np.abs(run[1]["token_embedding"] - theirs[1]["token_embedding"]).max() <= 2e-6
