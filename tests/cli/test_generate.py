"""`jaxgpt generate` on a saved model."""

import contextlib
import io
import itertools
import json
import shutil

import jax
import pytest
from program import run_program

import jaxgpt
from jaxgpt.generation.generate import generate


@pytest.fixture
def text_of(command, saved):
    """Return a function of options: the text that `generate` prints for the saved model."""

    def run(*options):
        code, out, err = command("generate", saved, *options, "--quiet")
        assert (code, err) == (0, "")
        return out.removesuffix("\n")

    return run


@pytest.fixture
def expected(model, tokenizer):
    """Return a function of a prompt and `jaxgpt.generate`'s options: the text that it gives."""

    def run(prompt, *, seed=0, **options):
        ids = [tokenizer.encode(prompt).tolist()]
        return tokenizer.decode(generate(*model, ids, key=jax.random.key(seed), **options).ids[0])

    return run


def test_greedy_text_is_the_library_s_and_the_same_every_time(text_of, expected):
    options = ("--prompt", "hello", "--temperature", 0, "--max-new-tokens", 6)
    assert text_of(*options) == expected("hello", temperature=0, max_new_tokens=6) == text_of(*options)


def test_every_option_of_the_draw_counts(text_of, expected):
    text = text_of("--prompt", "he", "--temperature", 1.5, "--top-k", 5, "--top-p", 0.8, "--seed", 4)
    assert text == expected("he", temperature=1.5, top_k=5, top_p=0.8, seed=4, max_new_tokens=14)
    plain = text_of("--prompt", "he", "--seed", 4)
    assert plain == expected("he", seed=4, max_new_tokens=14)
    assert plain != text


def test_a_seed_gives_the_same_text_again_and_another_seed_another(text_of):
    first = text_of("--prompt", "h", "--seed", 1)
    assert first == text_of("--prompt", "h", "--seed", 1)
    assert first != text_of("--prompt", "h", "--seed", 2)
    assert text_of("--prompt", "h") == text_of("--prompt", "h", "--seed", 0)


def test_without_a_prompt_a_line_break_is_continued_to_the_end_of_the_context(text_of, expected):
    text = text_of()
    assert len(text) == 16
    assert text == expected("\n", max_new_tokens=15)


def test_json_gives_step_prompts_texts_and_ids(command, saved, tokenizer):
    prompts = ["hello", "w"]
    code, out, err = command("generate", saved, "--prompt", prompts[0], "--prompt", prompts[1], "--json", "--quiet")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert set(document) == {"step", "results"}
    assert document["step"] == 0
    assert [result["prompt"] for result in document["results"]] == prompts
    for prompt, result in zip(prompts, document["results"], strict=True):
        assert set(result) == {"prompt", "text", "ids", "stop_reason", "sample"}
        assert (result["stop_reason"], result["sample"]) == ("length", 0)
        assert tokenizer.decode(result["ids"]) == result["text"]
        assert result["text"].startswith(prompt)
        assert len(result["text"]) == len(prompt) + 11  # what fits behind the longest prompt


def test_several_prompts_are_printed_one_after_another(text_of):
    texts = text_of("--prompt", "hello", "--prompt", "w", "--temperature", 0, "--max-new-tokens", 4).split("\n---\n")
    assert texts == [text_of("--prompt", p, "--temperature", 0, "--max-new-tokens", 4) for p in ("hello", "w")]


def test_a_cropped_context_goes_on_for_as_long_as_asked(text_of, expected):
    prompt = "hello world hello world"
    text = text_of("--prompt", prompt, "--context-policy", "crop", "--max-new-tokens", 20)
    assert text == expected(prompt, max_new_tokens=20, context_policy="crop")
    assert len(text) == len(prompt) + 20


class Recorder(io.StringIO):
    """A standard output that remembers what was there at each flush."""

    def __init__(self):
        super().__init__()
        self.flushed = []

    def flush(self):
        self.flushed.append(self.getvalue())


def test_one_text_is_there_as_it_comes_prompt_first(command, saved, text_of):
    options = ("--prompt", "hello", "--temperature", 0, "--max-new-tokens", 6)
    with contextlib.redirect_stdout(Recorder()) as recorder:
        command("generate", saved, *options, "--quiet")
    shown = list(dict.fromkeys(recorder.flushed))
    assert shown[0] == "hello"
    assert len(shown[1]) == len("hello") + 1  # the first token is not kept waiting for the others
    assert all(after.startswith(before) for before, after in itertools.pairwise(shown))
    assert shown[-1] == text_of(*options, "--prompt", "w").split("\n---\n")[0] + "\n"


@pytest.fixture
def results_of(command, saved):
    """Return a function of options: the results that `generate --jsonl` prints for the saved model."""

    def run(*options):
        code, out, err = command("generate", saved, *options, "--jsonl", "--quiet")
        assert (code, err) == (0, "")
        return [json.loads(line) for line in out.splitlines()]

    return run


def test_the_lines_of_a_file_are_prompts_in_their_order_whatever_the_batch(results_of, tmp_path):
    (tmp_path / "p.jsonl").write_text('"hello"\r\n{"prompt": "w"}\n"he\\u006c"\n')
    results = results_of("--prompts", "p.jsonl", "--batch-size", 2, "--seed", 2)
    assert [result["prompt"] for result in results] == ["hello", "w", "hel"]
    assert [len(result["ids"]) for result in results] == [16, 12, 14]  # what fits behind the longest, of all batches
    assert results == results_of("--prompts", "p.jsonl", "--batch-size", 1, "--seed", 2)


def test_n_continuations_and_log_probabilities_are_the_library_s(results_of, command, saved, model, tokenizer):
    options = ("--prompt", "he", "--n", 2, "--seed", 3, "--max-new-tokens", 6, "--logprobs")
    results = results_of(*options)
    expected = generate(*model, [tokenizer.encode("he")], max_new_tokens=6, n=2, logprobs=True, key=jax.random.key(3))
    assert [result["ids"] for result in results] == expected.ids
    assert [result["sample"] for result in results] == [0, 1]
    assert results[0]["ids"] != results[1]["ids"]
    assert [result["logprobs"] for result in results] == expected.logprobs
    assert json.loads(command("generate", saved, *options, "--json")[1])["results"] == results


def test_min_p_and_the_repetition_penalty_count(text_of, expected):
    text = text_of("--prompt", "he", "--max-new-tokens", 9, "--min-p", 0.4, "--repetition-penalty", 3)
    assert text == expected("he", max_new_tokens=9, min_p=0.4, repetition_penalty=3.0)
    assert text != expected("he", max_new_tokens=9, min_p=0.4)
    assert text != expected("he", max_new_tokens=9, repetition_penalty=3.0)


def test_a_text_ends_before_a_stop_string_whichever_way_it_is_shown(text_of, results_of):
    whole = text_of("--prompt", "he", "--max-new-tokens", 12)
    stop = whole[8:10]
    text = whole[: whole.index(stop, 2)]
    options = ("--prompt", "he", "--max-new-tokens", 12, "--stop", "never", "--stop", stop)
    [result] = results_of(*options)
    assert (result["text"], result["stop_reason"]) == (text, "stop_string")
    assert len(result["ids"]) == len(text) + len(stop)
    assert text_of(*options) == text
    assert text_of(*options, "--prompt", "he") == f"{text}\n---\n{text}"


@pytest.mark.ci  # compiles a loop of its own; tests/generation has what it makes
def test_lookup_gives_the_same_text_and_says_what_it_kept(command, saved, text_of):
    options = ("--prompt", "hello", "--temperature", 0, "--max-new-tokens", 11)
    code, out, err = command("generate", saved, *options, "--lookup", 2)
    assert (code, out) == (0, text_of(*options) + "\n")
    assert "; lookup: " in err
    assert "drafted tokens kept\n" in err
    assert "lookup" not in command("generate", saved, *options)[2]


def test_the_footer_counts_and_goes_to_standard_error(command, saved, tmp_path):
    (tmp_path / "p.jsonl").write_text('"hello"\n"he"\n"w"\n')
    options = ("--prompts", "p.jsonl", "--max-new-tokens", 3, "--batch-size", 2)  # the second batch is filled up
    code, out, err = command("generate", saved, *options)
    first, second = err.splitlines()
    assert (code, out.count("---")) == (0, 2)
    assert first.startswith("prompt: 8 tokens, ")
    assert "; new: 9 tokens, the first after " in first
    assert first.count("tokens/s") == 2
    assert second.startswith("compiling: ")
    assert second.endswith(" MB (ru_maxrss)")
    assert "prompt: 0 tokens" in command("generate", saved, "--prompt", "he", "--max-new-tokens", 0)[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--prompt", "hexlo"],
            "--prompt hexlo: character 'x' (U+0078) at position 2 is not among the 9 characters of this tokenizer",
        ),
        (["--prompt", "hello", "--prompt", "he x"], "--prompt 'he x': character 'x' (U+0078) at position 3 is not "),
        (["--prompt", ""], "--prompt '': it is empty; give at least one token"),
        (["--prompt", "-5"], "--prompt -5: character '-' (U+002D) at position 0 is not among the 9 characters"),
        (["--prompt", "-x"], "--prompt: expected a value; one that begins with a dash is written --prompt=VALUE"),
        (
            ["--prompt", "hello", "--max-new-tokens", "12"],
            "--prompt hello: prompts[0]: 5 tokens + 12 new = 17, above the context of 16; ask for at most 11 new to",
        ),
        (
            ["--prompt", "hello world hell"],
            "--prompt 'hello world hell': a prompt of 16 tokens fills the context of 16; shorten it, or give ",
        ),
        (["--max-new-tokens", "-1"], "max_new_tokens: expected at least 0, got -1"),
        (["--max-new-tokens", "few"], "argument --max-new-tokens: expected a whole number, got 'few'"),
        (["--temperature", "nan"], "temperature: expected a number of at least 0, got nan"),
        (["--temperature", "-1"], "temperature: expected a number of at least 0, got -1"),
        (["--temperature", "hot"], "argument --temperature: expected a number, got 'hot'"),
        (["--top-k", "0"], "top_k: expected a whole number of at least 1, got 0; leave it out to keep all tokens"),
        (["--top-p", "0"], "top_p: expected above 0 and at most 1, got 0"),
        (["--seed", "-1"], "argument --seed: expected a whole number from 0 to 4294967295, got -1"),
        (["--seed", "4294967296"], "argument --seed: expected a whole number from 0 to 4294967295, got 4294967296"),
        (
            ["--context-policy", "corp"],
            "argument --context-policy: unknown choice 'corp'; did you mean 'crop'? (stop,",
        ),
        (["--promt", "h"], "unknown option '--promt'; did you mean '--prompt'? (see jaxgpt generate --help)"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_request_is_refused(refusal, saved, options, message):
    assert refusal("generate", saved, *options).startswith(message)


def test_a_path_that_is_no_run_is_refused_with_what_it_is(refusal, tmp_path):
    assert refusal("generate").startswith("the following arguments are required: RUN")
    expected = "expected a run directory, a Hugging Face folder or a llama2.c file"
    assert refusal("generate", "absent") == f"absent does not exist; {expected}, check the path"
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"")
    message = refusal("generate", "photos")
    assert message.startswith(
        "photos is no run directory and no Hugging Face folder: it has no manifest.json and no "
    )
    assert ", it holds cat.png" in message
    assert refusal("generate", "photos/cat.png") == f"photos/cat.png is a file; {expected} (.bin), check the path"


def test_a_model_without_a_tokenizer_is_refused(command, tmp_path, model):
    jaxgpt.save(tmp_path / "bare", *model)
    code, out, err = command("generate", "bare")
    assert (code, out) == (2, "")
    assert err == (
        "jaxgpt: bare holds no tokenizer; name its file or folder with --tokenizer, or use jaxgpt.generate with ids "
        "from Python\n"
    )


def test_a_tokenizer_can_be_named_for_a_model_without_one(text_of, command, refusal, tmp_path, model, tokenizer):
    jaxgpt.save(tmp_path / "bare", *model)
    (tmp_path / "vocab.json").write_text(json.dumps(tokenizer.characters))
    options = ("--prompt", "hello", "--temperature", 0, "--max-new-tokens", 6)
    code, out, err = command("generate", "bare", "--tokenizer", "vocab.json", *options, "--quiet")
    assert (code, out, err) == (0, text_of(*options) + "\n", "")

    message = refusal("generate", "bare", "--tokenizer", "gone")
    assert message.startswith("--tokenizer: 'gone' is neither a kind nor a file (kinds: bytes, gpt2; or the path of")
    (tmp_path / "empty").mkdir()
    message = refusal("generate", "bare", "--tokenizer", "empty")
    assert message.startswith("--tokenizer: the folder empty holds no tokenizer; it needs a tokenizer.json")
    assert refusal("generate", "bare", "--tokenizer", "bytes").startswith("--tokenizer: the tokenizer has 256 ids, ")
    (tmp_path / "large.json").write_text(json.dumps([chr(i) for i in range(65, 80)]))
    message = refusal("generate", "bare", "--tokenizer", "large.json")
    assert message.startswith("--tokenizer: the tokenizer has 15 ids, the model only 9; use the one that the model")


def test_a_tokenizer_beside_the_model_s_own_must_mean_the_same(text_of, refusal, saved, tmp_path, tokenizer):
    (tmp_path / "vocab.json").write_text(json.dumps(tokenizer.characters))
    options = ("--prompt", "hello", "--temperature", 0, "--max-new-tokens", 1)
    assert text_of("--tokenizer", "vocab.json", *options) == text_of(*options)
    (tmp_path / "vocab.json").write_text(json.dumps(tokenizer.characters[::-1]))
    message = refusal("generate", saved, "--tokenizer", "vocab.json")
    assert message.startswith("--tokenizer has 9 ids, and id 0 means 'w', but the model was trained with 9 ids, and")


def test_a_run_whose_only_checkpoint_is_gone_is_a_failure_of_the_work(command, tmp_path, saved):
    shutil.copytree(saved, tmp_path / "gutted")
    shutil.rmtree(next((tmp_path / "gutted" / "checkpoints").iterdir()))
    code, out, err = command("generate", "gutted")
    assert (code, out) == (1, "")
    assert err.startswith("jaxgpt: ")
    assert err.count("\n") == 1


@pytest.mark.ci
def test_a_process_prints_the_text_and_nothing_else(tmp_path, saved, expected):
    done = run_program(
        "generate", saved, "--prompt", "hello", "--temperature", 0, "--max-new-tokens", 6, "--quiet", cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == expected("hello", temperature=0, max_new_tokens=6) + "\n"
