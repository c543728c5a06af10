"""`jaxgpt data prepare`: texts into a token file, in this process and in one that is stopped and killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from program import PROGRAM, run_program

from jaxgpt.data import TokenFile, train_bpe
from jaxgpt.data.sources import open_source


@pytest.fixture
def text_file(tmp_path):
    (tmp_path / "text.txt").write_text("to be or\nnot to be\n")
    return "text.txt"


def prepared(path):
    tokens = TokenFile.open(path)
    tokens.check()
    return tokens


def test_a_text_becomes_a_token_file(command, text_file, tmp_path):
    code, out, err = command("data", "prepare", text_file, "--tokenizer", "bytes", "--out", "a.tokens")
    assert code == 0
    assert err == (
        "reading text.txt (one document): 0.0 MB\n"
        "this tokenizer has no end token, and nothing stands behind the one document; see --end-token\n"
    )
    tokens = prepared(tmp_path / "a.tokens")
    first, second, third, *last = out.splitlines()
    assert first == "a.tokens: 19 tokens (uint16) of 1 documents, nothing after each"
    assert second.startswith("1.00 bytes of text per token; 0.0 MB in ")
    assert third.endswith(f"; sha256 of the ids {tokens.header.sha256}")
    assert last == ["train on it with:", "  jaxgpt train --data.path a.tokens"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tokens", "text.txt"]


def test_the_second_call_says_that_it_is_done(command, text_file, tmp_path):
    arguments = ("data", "prepare", text_file, "--tokenizer", "characters", "--out", "a.tokens")
    command(*arguments)
    content = (tmp_path / "a.tokens").read_bytes()
    code, out, _ = command(*arguments)
    assert code == 0
    assert "it was there already, and is what this command makes" in out
    assert (tmp_path / "a.tokens").read_bytes() == content


def test_the_summary_as_json(command, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"body": "low lower"}\n{"body": "low"}\n')
    (tmp_path / "bpe.json").write_text(train_bpe("low lower lowest low low", 260, ["<|endoftext|>"]).document)
    code, out, _ = command(
        "data", "prepare", "a.jsonl", "--tokenizer", "bpe.json", "--out", "a.tokens", "--field", "body", "--json"
    )
    facts = json.loads(out)
    assert code == 0
    assert (facts["documents"], facts["end_id"], facts["vocab_size"]) == (2, 259, 260)
    assert facts["bytes_per_token"] == 12 / facts["tokens"]
    assert prepared(tmp_path / "a.tokens").ids_N.tolist().count(259) == 2


def test_no_end_token_is_put_where_none_is_wanted(command, text_file, tmp_path):
    (tmp_path / "bpe.json").write_text(train_bpe("low lower lowest low low", 260, ["<|endoftext|>"]).document)
    arguments = ("data", "prepare", text_file, "--tokenizer", "bpe.json", "--out", "a.tokens", "--no-end-token")
    code, out, _ = command(*arguments)
    assert (code, prepared(tmp_path / "a.tokens").header.end_id) == (0, None)
    assert "nothing after each" in out


@pytest.mark.parametrize(("name", "size"), [("bytes", 256), ("characters", 3)])
def test_several_documents_end_in_a_token_through_any_tokenizer(command, tmp_path, name, size):
    (tmp_path / "a.jsonl").write_text('{"text": "abc"}\n{"text": "b"}\n')
    code, out, err = command("data", "prepare", "a.jsonl", "--tokenizer", name, "--out", "a.tokens")
    assert (code, f"of 2 documents, id {size} after each" in out) == (0, True)
    assert f"this tokenizer has no end token: id {size} is added for it, and the token file's tokenizer" in err
    source = open_source(str(tmp_path / "a.tokens"))  # as a run does
    assert source.checked(source.tokenizer, print).end_id == size
    assert source.tokenizer.decode(source.ids_N) == "abc<eos>b<eos>"


@pytest.mark.parametrize(
    ("names", "options", "end_id"),
    [
        (["a.txt"], [], None),
        (["a.txt"], ["--end-token"], 256),
        (["a.txt", "b.txt"], [], 256),
        (["a.txt", "b.txt"], ["--no-end-token"], None),
    ],
    ids=str,
)
def test_when_an_end_token_is_added(command, tmp_path, names, options, end_id):
    for name in names:
        (tmp_path / name).write_text("a")
    command("data", "prepare", *names, "--tokenizer", "bytes", "--out", "a.tokens", *options)
    header = prepared(tmp_path / "a.tokens").header
    assert (header.end_id, header.vocab_size) == (end_id, 256 if end_id is None else 257)


def test_what_is_left_out_and_what_is_encoded_whole_is_said(command, tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t/a.md").write_text("low")
    (tmp_path / "t/b.png").write_text("low")
    (tmp_path / "t/.git").mkdir()
    document = json.loads(train_bpe("low lower lowest low low", 258).document)
    document["normalizer"] = {"type": "NFC"}
    (tmp_path / "nfc.json").write_text(json.dumps(document))
    _, _, err = command("data", "prepare", "t", "--tokenizer", "nfc.json", "--out", "a.tokens")
    assert "leaving out t/b.png: by their ending neither text nor JSONL\nleaving out t/.git: hidden, their" in err
    assert "each document is encoded whole, because its normalizer NFC may look at more than one character; " in err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--tokenizer": "bites"}, "--tokenizer: 'bites' is neither a kind nor a file; did you mean 'bytes'?"),
        ({"--workers": 0}, "--workers: expected at least 1, got 0"),
        ({"--workers": 200_000}, ", got 200000; threads beyond one a core, of which"),
        ({"--field": "body"}, "--field body: none of the files is JSONL, so it would name nothing; leave it out"),
        ({"--end-token": "--no-end-token"}, "argument --no-end-token: not allowed with argument --end-token"),
        ({"--workers": "all"}, "argument --workers: expected a whole number, got 'all'"),
        ({"--out": "gone/a.tokens"}, "--out gone/a.tokens: there is no folder gone; make it, or name another file"),
        ({"--out": "."}, "--out . is a folder; name a file, such as text.tokens"),
        ({"--fields": "a"}, "unknown option '--fields'; did you mean '--field'? (see jaxgpt data prepare --help)"),
    ],
    ids=str,
)
def test_a_wrong_request_is_refused(command, text_file, tmp_path, changes, message):
    options = {"--tokenizer": "bytes", "--out": "a.tokens"} | changes
    code, out, err = command("data", "prepare", text_file, *(word for pair in options.items() for word in pair))
    assert (code, out) == (2, "")
    assert message in err
    assert os.listdir(tmp_path) == ["text.txt"]


def test_without_inputs_it_is_refused(refusal):
    assert "the following arguments are required: INPUT" in refusal(
        "data", "prepare", "--tokenizer", "bytes", "--out", "a.tokens"
    )


def test_it_needs_no_jax(text_file, tmp_path):
    code = (
        "import sys; from jaxgpt.cli import main; main(sys.argv[1:]); "
        "print({'jax', 'flax', 'orbax', 'grain'} & set(sys.modules))"
    )
    arguments = ["data", "prepare", text_file, "--tokenizer", "bytes", "--out", "a.tokens"]
    process = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert process.stdout.endswith("\nset()\n")


@pytest.fixture
def large(tmp_path):
    """A text and a slow tokenizer: some seconds of work."""
    lines = "".join(f"line {number} of a play, {number * 7919 % 10007} words\n" for number in range(250_000))
    (tmp_path / "large.txt").write_text(lines)
    (tmp_path / "bpe.json").write_text(train_bpe(lines[:20_000], 300, ["<|endoftext|>"]).document)
    return ["data", "prepare", "large.txt", "--tokenizer", "bpe.json", "--workers", "1", "--out"]


def begin(arguments, folder, size=3_000_000):
    """Start it, and return when so many bytes of ids are written."""
    process = subprocess.Popen([*PROGRAM, *arguments], cwd=folder, stderr=subprocess.PIPE, text=True)
    journal = folder / f"{arguments[-1]}.journal"
    end = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end:
        if journal.exists() and Path(folder, f"{arguments[-1]}.partial").stat().st_size > size:
            break
        time.sleep(0.01)
    assert process.poll() is None
    return process


@pytest.mark.ci
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_it_at_once_and_the_command_goes_on(large, tmp_path, number, code):
    process = begin([*large, "a.tokens"], tmp_path)
    process.send_signal(number)
    started = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - started < 2
    assert process.returncode == code
    assert err.endswith(
        "jaxgpt: stopped; go on with the same command:\n"
        "  jaxgpt data prepare large.txt --tokenizer bpe.json --workers 1 --out a.tokens\n"
    )
    done = run_program(*large, "a.tokens", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["tokens_from_earlier_calls"] > 1_000_000


@pytest.mark.ci
def test_killed_hard_it_goes_on_to_the_same_file(large, tmp_path):
    run_program(*large, "whole.tokens", cwd=tmp_path)
    for size in (1_000_000, 2_000_000, 4_000_000):
        process = begin([*large, "a.tokens"], tmp_path, size)
        process.kill()
        process.communicate()
    assert run_program(*large, "a.tokens", cwd=tmp_path).returncode == 0
    assert (tmp_path / "a.tokens").read_bytes() == (tmp_path / "whole.tokens").read_bytes()


@pytest.mark.ci
def test_memory_does_not_grow_with_the_text(tmp_path):
    peaks = []
    for megabytes in (4, 64):
        (tmp_path / "a.txt").write_bytes(b"to be or not to be, that is the question " * (megabytes * 25_000))
        out = run_program(
            "data", "prepare", "a.txt", "--tokenizer", "bytes", "--out", megabytes, "--json", cwd=tmp_path
        )
        peaks.append(json.loads(out.stdout)["peak_memory_bytes"])
    assert max(peaks) < 200e6
    assert abs(peaks[1] - peaks[0]) < 10e6


@pytest.mark.ci
def test_a_second_process_is_refused(large, tmp_path):
    process = begin([*large, "a.tokens"], tmp_path, 1_000_000)
    process.send_signal(signal.SIGSTOP)
    refused = run_program(*large, "a.tokens", cwd=tmp_path)
    process.kill()
    process.communicate()
    assert refused.returncode == 2
    assert "another process prepares a.tokens; wait until it ends" in refused.stderr
