"""What lies at a path decides which tokenizer it is; what cannot be read is named."""

import json
import shutil

import pytest

from jaxgpt.data import CharacterTokenizer, Gpt2Tokenizer, JsonTokenizer, tokenizer_from_path
from jaxgpt.data.tokenizer.gpt2 import BYTE_SYMBOLS

SMALL = [*BYTE_SYMBOLS.values(), "he", "hel", "<|endoftext|>", "<pad>"]
MERGES = "#version: 0.2\nh e\nhe l\n"


def vocabulary(tokens):
    return json.dumps({token: id for id, token in enumerate(tokens)})


@pytest.fixture
def write(tmp_path):
    """Return a function that writes files into an empty folder and returns the folder."""

    def files(**contents):
        for name, content in contents.items():
            (tmp_path / name.replace("__", ".")).write_text(content)
        return tmp_path

    return files


def test_a_folder_without_a_tokenizer_gives_none(write):
    assert tokenizer_from_path(write(config__json="{}", model__safetensors="")) is None


def test_the_characters_of_a_nanogpt_model_are_read_in_their_order(test_data):
    tokenizer = tokenizer_from_path(test_data / "shakespeare-char-gpt2")
    expected = json.loads((test_data / "shakespeare-char-gpt2" / "expected.json").read_text())
    assert isinstance(tokenizer, CharacterTokenizer)
    assert tokenizer.vocab_size == 65
    assert tokenizer.encode(expected["prompt"]).tolist() == expected["prompt_ids"]


def test_a_list_of_characters_is_a_table_of_characters(write):
    folder = write(vocab__json='["b", "a", "\\n"]')
    assert tokenizer_from_path(folder) == tokenizer_from_path(folder / "vocab.json")
    assert tokenizer_from_path(folder).characters == ("b", "a", "\n")


def test_a_tokenizer_json_is_read_from_its_folder_or_by_its_own_path(write, learned):
    folder = write(tokenizer__json=learned.document, vocab__json="[]")
    assert tokenizer_from_path(folder) == tokenizer_from_path(folder / "tokenizer.json") == learned


def test_tokenizer_config_says_which_token_has_which_role(write, learned):
    config = {"pad_token": "<|endoftext|>", "eos_token": {"content": "<pad>"}, "bos_token": None, "mask_token": "[M]"}
    tokenizer = tokenizer_from_path(
        write(tokenizer__json=learned.document, tokenizer_config__json=json.dumps(config))
    )
    assert tokenizer.special_ids == {"bos": 498, "eos": 499, "pad": 498}


def test_gpt2s_two_files_are_gpt2_under_either_pair_of_names(gpt2_folder, gpt2, tmp_path):
    assert tokenizer_from_path(gpt2_folder) == gpt2
    assert tokenizer_from_path(gpt2_folder / "encoder.json") == gpt2
    shutil.copy(gpt2_folder / "encoder.json", tmp_path / "vocab.json")
    shutil.copy(gpt2_folder / "vocab.bpe", tmp_path / "merges.txt")
    assert tokenizer_from_path(tmp_path) == tokenizer_from_path(tmp_path / "merges.txt") == gpt2
    (tmp_path / "vocab.json").unlink()
    assert tokenizer_from_path(tmp_path) == gpt2


def test_gpt2s_merges_with_another_vocabulary_follow_the_vocabulary(gpt2_folder, gpt2, tmp_path):
    shutil.copy(gpt2_folder / "vocab.bpe", tmp_path / "merges.txt")
    (tmp_path / "vocab.json").write_text(vocabulary([*gpt2.tokens, "<pad>"]))
    tokenizer = tokenizer_from_path(tmp_path)
    assert isinstance(tokenizer, JsonTokenizer)
    assert tokenizer.special_ids == {"bos": 50256, "eos": 50256, "pad": 50257}
    assert tokenizer.encode("Hello world").tolist() == [15496, 995]


def test_merges_may_have_the_line_ends_of_windows_and_no_version(write):
    folder = write(vocab__json=vocabulary(SMALL), merges__txt=MERGES)
    tokenizer = tokenizer_from_path(folder)
    (folder / "merges.txt").write_bytes(b"h e\r\nhe l\r\n")
    assert tokenizer_from_path(folder) == tokenizer


@pytest.mark.parametrize("named", ["", "vocab.json", "merges.txt"])
def test_a_vocabulary_with_merges_has_the_ids_of_the_vocabulary(write, named):
    tokens = list(reversed(SMALL))
    folder = write(vocab__json=vocabulary(tokens), merges__txt=MERGES)
    tokenizer = tokenizer_from_path(folder / named)
    assert tokenizer.vocab_size == 260
    assert tokenizer.special_ids == {"bos": 1, "eos": 1, "pad": 0}
    assert [tokens[id] for id in tokenizer.encode("hello é")] == ["hel", "l", "o", "Ġ", "Ã", "©"]
    assert tokenizer.decode(tokenizer.encode("hello é")) == "hello é"


def test_roles_are_read_for_a_vocabulary_with_merges_too(write):
    config = '{"bos_token": "<pad>"}'
    folder = write(vocab__json=vocabulary(SMALL), merges__txt=MERGES, tokenizer_config__json=config)
    assert tokenizer_from_path(folder).special_ids == {"bos": 259, "eos": 258, "pad": 259}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"vocab__json": '["a", "bc"]'}, "vocab.json: character tokenizer: entry 1 is 'bc'"),
        ({"vocab__json": '{"chars": "ab"}'}, "vocab.json: this JSON is no tokenizer; expected a tokenizer.json, voc"),
        ({"vocab__json": '{"a": 0}'}, "vocab.json: it maps tokens to ids, but merges.txt, the merges that go with"),
        ({"vocab__json": "{}"}, "vocab.json: this JSON is no tokenizer"),
        ({"vocab__json": '{"a": true}', "merges__txt": ""}, "vocab.json: this JSON is no tokenizer"),
        ({"vocab__json": '["a'}, "vocab.json: not whole JSON (Unterminated string"),
        ({"tokenizer__json": '{"model": {}}'}, "tokenizer.json: not a tokenizer.json that the tokenizers library"),
        (
            {"tokenizer__json": '{"model": {}}', "tokenizer_config__json": "[]"},
            "tokenizer_config.json: expected an object with the special tokens",
        ),
        ({"merges__txt": MERGES}, "merges.txt: these are not GPT-2's merges"),
        ({"vocab__bpe": MERGES}, "vocab.bpe: these are not GPT-2's merges"),
        ({"vocab__bpe": MERGES, "encoder__json": "[]"}, "encoder.json: expected an object that gives each token"),
        (
            {"vocab__json": vocabulary(SMALL), "merges__txt": "#version: 0.2\nh e\nhe\n"},
            "line 3 of the merges is 'he', expected two parts with a space between",
        ),
        (
            {"vocab__json": vocabulary(SMALL), "merges__txt": "h \n"},
            "line 1 of the merges is 'h ', expected two parts",
        ),
        (
            {"vocab__json": vocabulary(SMALL), "merges__txt": "h e\nl o\n"},
            "the vocabulary and the merges do not fit together: ",
        ),
        (
            {"vocab__json": vocabulary(SMALL), "merges__txt": "#version: 0.2\nh e</w>\n"},
            "its merges mark the ends of words with </w>, as CLIP's do",
        ),
        ({"tokenizer__model": ""}, "tokenizer.model looks like a SentencePiece model, which is not read"),
        ({"spiece__model": ""}, "spiece.model looks like a SentencePiece model"),
        ({"meta__pkl": ""}, "meta.pkl looks like a pickle, which can run code when it is opened, so it is not"),
    ],
)
def test_a_folder_whose_tokenizer_cannot_be_read_is_refused_with_the_file(refusal, write, files, words):
    folder = write(**files)
    message = refusal(tokenizer_from_path, folder)
    assert message.startswith(str(folder))
    assert words in message


@pytest.mark.parametrize("name", ["tok.model", "tok.pkl", "tok.pickle", "tok.pt"])
def test_files_that_are_not_opened_are_refused_by_their_names_alone(refusal, tmp_path, name):
    assert f"{tmp_path / name} looks like a " in refusal(tokenizer_from_path, tmp_path / name)


def test_a_bin_file_is_judged_by_its_content(refusal, tmp_path):
    path = tmp_path / "tok.bin"
    path.write_bytes(b"\x07\0\0\0" + bytes(8))  # the longest token, then a score and a length
    message = refusal(tokenizer_from_path, path)
    assert message.startswith(
        f"{path} looks like llama2.c's tokenizer file, which is not read; give the tokenizer.js"
    )
    for start in (b"PK\x03\x04", b"\x80\x04"):
        path.write_bytes(start + bytes(8))
        assert f"{path} looks like a pickle" in refusal(tokenizer_from_path, path)


def test_a_file_that_cannot_be_read_is_refused(refusal, tmp_path):
    assert f"{tmp_path}/gone.json: cannot be read: No such file" in refusal(
        tokenizer_from_path, tmp_path / "gone.json"
    )
    assert "cannot be read: File name too long" in refusal(tokenizer_from_path, tmp_path / ("a" * 300))
    (tmp_path / "tokenizer.json").write_bytes(b'{"model": "\xff"}')
    assert "tokenizer.json: not UTF-8 at byte 11" in refusal(tokenizer_from_path, tmp_path)


def test_merges_of_any_name_may_be_gpt2s(gpt2_folder, gpt2, tmp_path):
    shutil.copy(gpt2_folder / "vocab.bpe", tmp_path / "mine.bpe")
    (tmp_path / "vocab.json").write_text("something else")
    assert tokenizer_from_path(tmp_path / "mine.bpe") == gpt2
    assert isinstance(gpt2, Gpt2Tokenizer)
