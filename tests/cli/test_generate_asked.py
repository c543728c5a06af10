"""What `jaxgpt generate` is asked: files of prompts, and requests that are refused before anything is computed."""

import io
import os
import signal
import subprocess

import pytest
from program import PROGRAM

from jaxgpt.cli.generate.asked import Asked, asked_in_file


def test_a_dash_is_standard_input(monkeypatch):
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO(b'\xef\xbb\xbf"hel\xe2\x80\xa8lo"\r\n{"source": "w"}'))
    )
    assert asked_in_file("-") == [
        Asked("hel\N{LINE SEPARATOR}lo", None, "standard input line 1"),
        Asked(None, "w", "standard input line 2"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", '--prompts: p.jsonl holds no prompts; write a JSON string such as "ROMEO:" on each line'),
        (b"\n \n", "--prompts: p.jsonl holds no prompts"),
        (b'"he\xe9"', "--prompts: p.jsonl is not UTF-8: byte 0xE9 at offset 3; save it as UTF-8"),
        (b'"he"\nhello\n', "p.jsonl line 2: expected a JSON string, or an object with \"prompt\", got 'hello'"),
        (b'"he"\n\n"w"\n', "p.jsonl line 2: expected a JSON string, or an object with \"prompt\", got ''"),
        (b"[1]", "p.jsonl line 1: expected a JSON string, or an object with \"prompt\", got '[1]'"),
        (b"7", "p.jsonl line 1: expected a JSON string"),
        (b"null", "p.jsonl line 1: expected a JSON string"),
        (b"[" * 100_000, 'p.jsonl line 1: expected a JSON string, or an object with "prompt", got \'[[[['),
        (b"{}", 'p.jsonl line 1: the object is empty; give it a "prompt"'),
        (
            b'{"promt": "he"}',
            "p.jsonl line 1: unknown field 'promt'; did you mean 'prompt'? (fields: prompt, source)",
        ),
        (b'{"prompt": 3}', "p.jsonl line 1: expected prompt to be text, got '3'"),
        (b'{"prompt": null}', "p.jsonl line 1: expected prompt to be text, got 'null'"),
        (b'"he"\n{"prompt": "w", "source": "he"}', "p.jsonl line 2: a source means nothing for a model of family de"),
        (b'{"source": "he"}', "p.jsonl line 1: a source means nothing for a model of family decoder"),
        (b'"he"\n"hex"', "p.jsonl line 2: prompt: character 'x' (U+0078) at position 2 is not among the 9"),
        (b'"he"\n""', "p.jsonl line 2: prompt: it is empty; give at least one token"),
        (b'"he"\n"hello world hell"', "p.jsonl line 2: prompt: a prompt of 16 tokens fills the context of 16; "),
        (b'"\\ud800"', "p.jsonl line 1: prompt: "),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, bytes) else "",
)
def test_a_file_that_asks_for_nothing_is_refused_with_its_line(refusal, saved, tmp_path, content, message):
    (tmp_path / "p.jsonl").write_bytes(content)
    assert refusal("generate", saved, "--prompts", "p.jsonl").startswith(message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prompts", "absent"], "--prompts: cannot read absent: No such file or directory; name a readable file"),
        (["--prompts", "."], "--prompts: cannot read .: Is a directory; name a readable file"),
        (["--prompts", ""], "--prompts is empty; name a file, or - for standard input"),
        (["--prompts", "p", "--prompt", "he"], "--prompts and --prompt both say what is asked; put all of it into"),
        (["--prompts", "p", "--source", "he"], "--prompts and --source both say what is asked"),
        (["--json", "--jsonl"], "--json prints one document and --jsonl one per text; give one of them"),
        (["--logprobs"], "--logprobs are printed as JSON only; add --json or --jsonl"),
        (["--batch-size", "0"], "--batch-size: expected at least 1, got 0"),
        (["--batch-size", "few"], "argument --batch-size: expected a whole number, got 'few'"),
        (["--n", "0"], "n: expected at least 1, got 0"),
        (["--n", "two"], "argument --n: expected a whole number, got 'two'"),
        (["--n", "2", "--temperature", "0"], "--n 2 at temperature 0 gives the same text 2 times; add a --temp"),
        (["--stop", ""], "--stop is empty; give some text, or leave it out"),
        (["--min-p", "1.5"], "min_p: expected 0 to 1, got 1.5; leave it out to keep all"),
        (["--min-p", "nan"], "min_p: expected 0 to 1, got nan"),
        (["--repetition-penalty", "0"], "repetition_penalty: expected a float32 above 0, got 0; leave it out for "),
        (["--repetition-penalty", "inf"], "repetition_penalty: expected a float32 above 0, got inf"),
        (["--lookup"], "--lookup is for the most likely tokens, not for draws at temperature 1; add --temperature 0"),
        (["--lookup", "0", "--temperature", "0"], "lookup: expected draft to be a whole number of at least 1, got 0"),
        (["--lookup", "some"], "argument --lookup: expected a whole number, got 'some'"),
        (
            ["--lookup", "--temperature", "0", "--repetition-penalty", "2"],
            "lookup drafts tokens for plain greedy choices; it does not go with a repetition penalty",
        ),
        (
            ["--lookup", "--temperature", "0", "--context-policy", "crop"],
            "lookup drafts tokens for plain greedy choices; it does not go with context_policy 'crop'",
        ),
        (["--source", "he"], "--source means nothing for a model of family decoder; leave it out"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_are_wrong_or_do_not_fit_together_are_refused(refusal, saved, options, message):
    assert refusal("generate", saved, *options).startswith(message)


@pytest.fixture
def endless(saved):
    """The command line of a text that does not end."""
    options = ["--prompt", "hello", "--context-policy", "crop", "--max-new-tokens", "10000000"]
    return [*PROGRAM, "generate", str(saved), *options]


@pytest.mark.ci  # processes of their own, that compile
def test_an_interrupt_leaves_the_text_so_far_and_ends_with_130(endless):
    with subprocess.Popen(endless, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        begin = os.read(process.stdout.fileno(), 5) + os.read(process.stdout.fileno(), 1)
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=60)
    assert begin.startswith(b"hello")
    assert rest.endswith(b"\n")
    assert (process.returncode, err) == (130, b"jaxgpt: interrupted\n")


@pytest.mark.ci
def test_a_reader_that_leaves_ends_the_text_and_is_no_failure(endless):
    with subprocess.Popen(endless, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(8)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 0


@pytest.mark.ci
def test_a_folder_of_compiled_programs_is_filled_and_used(saved, tmp_path):
    command = [*PROGRAM, "generate", str(saved), "--prompt", "he"]
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "programs"), "XLA_FLAGS": ""}
    first, second = (
        subprocess.run(command, capture_output=True, text=True, check=True, env=environment) for _ in range(2)
    )
    assert first.stdout == second.stdout
    names = {path.name.rsplit("-", 2)[0] for path in (tmp_path / "programs").iterdir()}
    assert {"jit_prefill", "jit_begin", "jit_decode"} <= names
    seconds = [float(run.stderr.split("compiling: ")[1].split()[0]) for run in (first, second)]
    assert seconds[1] < 0.7 * seconds[0]
