"""What a run trains on, whatever holds it: the same batches, checked before the first step, known again later."""

import bz2
import gzip
import io
import json
import lzma
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from small_training import TEXT

from jaxgpt.config import RequestError
from jaxgpt.data import CharacterTokenizer, Corpus
from jaxgpt.data.objectives import OBJECTIVES
from jaxgpt.data.sources import Sources
from jaxgpt.data.stored import StoredIds
from jaxgpt.data.token_file import write_token_file
from jaxgpt.data.tokenizer.special import ExtendedTokenizer, with_roles
from jaxgpt.runs.directory import RunDirectory
from jaxgpt.runs.manifest import Manifest
from jaxgpt.training.data_lines import data_lines, realised_shares
from jaxgpt.training.material import gather_material
from jaxgpt.training.programs import Programs, make_mesh, training_batches
from jaxgpt.training.samples import first_try

CHARACTERS = CharacterTokenizer.train(TEXT)
IDS = CHARACTERS.encode(TEXT)


def material(config, begun=None):
    existing = None if begun is None else RunDirectory(Path("nowhere"), manifest_of(begun))
    return gather_material(config, existing, pytest.fail)


def manifest_of(begun):
    return Manifest(config=begun.config, data=begun.sources.identity, tokenizer=begun.tokenizer.to_json())


def refusal(*arguments):
    with pytest.raises(RequestError) as caught:
        material(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def tokens(tmp_path):
    """Return a function that writes a token file and returns its path."""

    def write(name="text.tokens", ids_N=IDS, tokenizer=CHARACTERS, end_id=None):
        write_token_file(tmp_path / name, ids_N, tokenizer, source="a test", end_id=end_id)
        return str(tmp_path / name)

    return write


@pytest.fixture
def raw(tmp_path):
    """Return a function that writes bytes and returns their path."""

    def write(content, name="train.bin"):
        (tmp_path / name).write_bytes(content)
        return str(tmp_path / name)

    return write


@pytest.fixture
def vocabulary(raw):
    """The path of the text's tokenizer."""
    return raw(json.dumps(CHARACTERS.characters).encode(), "vocab.json")


def llm_c(ids_N, *, magic=20240520, version=1, count=None, dtype="<u2"):
    header = np.zeros(256, "<i4")
    header[:3] = magic, version, len(ids_N) if count is None else count
    return header.tobytes() + ids_N.astype(dtype).tobytes()


def same_batches(one, other):
    for name in ("train", "validation"):
        left, right = getattr(one.splits, name), getattr(other.splits, name)
        assert left.count == right.count
        some = np.arange(left.count)
        ours, theirs = (each.batch(some, seed=0, draws_B=some) for each in (left, right))
        assert ours.keys() == theirs.keys()
        for field in ours:
            np.testing.assert_array_equal(ours[field], theirs[field], strict=True)
    return True


def test_a_token_file_gives_the_batches_of_its_text_and_brings_its_tokenizer(tiny, tokens):
    text, prepared = material(tiny()), material(tiny({"data.path": tokens()}))
    assert same_batches(text, prepared)
    assert prepared.tokenizer == text.tokenizer
    assert prepared.config.model == text.config.model
    assert isinstance(prepared.sources.training[0].ids_N, np.memmap)


@pytest.mark.parametrize(
    "content",
    [
        IDS.astype("<u2").tobytes(),
        llm_c(IDS),
        llm_c(IDS, magic=20240801, version=7, dtype="<u4"),
    ],
    ids=["nanoGPT", "llm.c", "llm.c of 32 bits"],
)
def test_a_bin_gives_the_batches_of_its_text_where_the_tokenizer_is_named(tiny, raw, vocabulary, content):
    path = raw(content)
    assert same_batches(material(tiny()), material(tiny({"data.path": path, "data.tokenizer": vocabulary})))
    message = refusal(tiny({"data.path": path}))
    assert message.startswith(f"{path} holds ")
    assert "nothing says which tokenizer they were written with; name it in data.tokenizer" in message
    assert "is made from a text" in refusal(tiny({"data.path": path, "data.tokenizer": "characters"}))


def test_texts_are_joined_once_for_their_characters_and_not_at_all_to_go_on(tiny, monkeypatch):
    joined, text = [], Sources.text.fget
    monkeypatch.setattr(Sources, "text", property(lambda self: joined.append(self) or text(self)))
    begun = material(tiny())
    assert len(joined) == 1
    material(tiny(), begun)
    assert len(joined) == 1


def test_a_text_stays_a_text_whatever_its_name(tiny, raw):
    assert same_batches(material(tiny()), material(tiny({"data.path": raw(TEXT.encode())})))


def test_what_may_be_either_has_to_be_said(tiny, raw, vocabulary):
    path = raw(IDS.astype("<u2").tobytes(), "train.ids")
    assert "has bytes of zero, so it may hold ids, or text that is not UTF-8" in refusal(tiny({"data.path": path}))
    settings = {"data.path": path, "data.tokenizer": vocabulary, "data.format": "uint16"}
    assert same_batches(material(tiny()), material(tiny(settings)))
    assert material(tiny({"data.path": path, "data.format": "text"})).sources.training[0].kind == "text"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (IDS.astype("<u4").tobytes(), "every second one is 0, as if they were of 32 bits; say so with data.format"),
        (b"\0\1\2", "has 3 bytes, which are no whole number of uint16 ids"),
        (np.array([3, 28, 0] * 9, "<u2").tobytes(), "id 28 at position 1 is outside 0..27, the vocabulary of data"),
        (llm_c(IDS, count=len(IDS) + 1), "says that 901 ids of 2 bytes follow its header, but 1,800 bytes do"),
        (llm_c(IDS, version=2), "has llm.c's magic 20240520 with version 2, expected 1"),
        (llm_c(IDS)[:700], "has 700 bytes, but llm.c's header alone takes 1,024"),
        (b"\0\0" * 8, "the training split has 7 tokens, but model.context_length 8 needs at least 9"),
    ],
)  # fmt: skip
def test_a_damaged_or_foreign_bin_is_refused(tiny, raw, vocabulary, content, words):
    assert words in refusal(tiny({"data.path": raw(content), "data.tokenizer": vocabulary}))


def test_ids_of_32_bits_without_a_header_are_read_where_that_is_said(tiny, raw, vocabulary):
    path = raw(IDS.astype("<u4").tobytes())
    settings = {"data.path": path, "data.tokenizer": vocabulary, "data.format": "uint32"}
    assert same_batches(material(tiny()), material(tiny(settings)))
    raw(IDS.astype("<u2").tobytes())
    assert " is outside 0..27, the vocabulary of data.tokenizer" in refusal(tiny(settings))
    raw(IDS[:1].astype("<u2").tobytes())
    assert "has 2 bytes, which are no whole number of uint32 ids" in refusal(tiny(settings))


@pytest.mark.parametrize(
    ("dtype", "vocab_size", "words"),
    [
        ("<u2", 65_537, "do not hold those of a tokenizer of 65,537; if it was written as uint32, say so"),
        (">u4", 7_000, "every second one is 0, as if they were of 32 bits; write them with the low byte first"),
    ],
)
def test_ids_of_16_bits_that_a_large_tokenizer_did_not_write_are_refused(tiny, raw, dtype, vocab_size, words):
    large = raw(json.dumps(list(map(chr, range(0x10000, 0x10000 + vocab_size)))).encode(), "large.json")
    assert words in refusal(tiny({"data.path": raw(IDS.astype(dtype).tobytes()), "data.tokenizer": large}))


@pytest.mark.parametrize(
    ("pack", "words"),
    [
        (lambda ids: gzip.compress(ids), "packed by gzip; unpack it first"),
        (lambda ids: pickle.dumps(ids), "a pickle; write the ids themselves, as uint16 or uint32"),
        (lambda ids: archive(zipfile.ZipFile, ids), "a zip archive (torch.save writes such); unpack it first"),
        (lambda ids: archive(np.save, ids), "a NumPy array with a header; write the ids"),
        (lambda ids: lzma.compress(ids), "packed by xz; unpack"),
        (lambda ids: bz2.compress(ids), "packed by bzip2; unpack"),
    ],
    ids=["gzip", "pickle", "zip", "numpy", "xz", "bzip2"],
)
@pytest.mark.parametrize(("name", "form"), [("train.bin", "auto"), ("train.ids", "uint16"), ("train.txt", "text")])
def test_a_file_of_another_kind_is_no_file_of_ids_and_no_text(tiny, raw, pack, words, name, form):
    content = pack(np.arange(2000, dtype="<u2").tobytes())
    message = refusal(tiny({"data.path": raw(content, name), "data.format": form}))
    assert message.startswith("data.path: ")
    assert words in message


def archive(write, content):
    """What NumPy or zipfile writes of some bytes."""
    file = io.BytesIO()
    if write is np.save:
        np.save(file, np.frombuffer(content, "<u2"))
    else:
        with write(file, "w") as whole:
            whole.writestr("ids", content)
    return file.getvalue()


def test_ids_may_begin_as_a_pickle_does(tiny, raw):
    path = raw(b"\x80\x02" + IDS.astype("<u2").tobytes())  # id 640
    assert "nothing says which tokenizer" in refusal(tiny({"data.path": path}))


def test_a_token_file_of_another_tokenizer_is_refused(tiny, tokens):
    path = tokens()
    message = refusal(tiny({"data.path": path, "data.tokenizer": "bytes"}))
    assert message.startswith("data.tokenizer has 256 ids, and id 0 means ")
    other = tokens("other.tokens", [1, 0] * 50, CharacterTokenizer(("b", "a")))
    message = refusal(tiny({"data.path": [path, other]}))
    assert message.startswith(
        f"{other} was written with a tokenizer of 2 ids, in which id 0 means 'b', but {path} has"
    )
    assert f"{other} was written with" in refusal(tiny({"data.path": other}), material(tiny()))
    roles = tokens("roles.tokens", IDS[:450], ExtendedTokenizer(with_roles(CHARACTERS, ["bos"]), ("eos",)))
    message = refusal(
        tiny({"data.path": [tokens("both.tokens", IDS, with_roles(CHARACTERS, ["bos", "eos"])), roles]})
    )
    assert " of 30 ids (kind extended, special tokens: bos 28, eos 29), but " in message
    assert "model.vocab_size is 20, but the tokenizer has 28" in refusal(
        tiny({"data.path": path, "model.vocab_size": 20})
    )


def test_a_flipped_id_in_a_token_file_is_found_before_the_first_step(tiny, tokens):
    path = Path(tokens())
    content = bytearray(path.read_bytes())
    content[-4] ^= 1
    path.write_bytes(content)
    assert "but its header says" in refusal(tiny({"data.path": str(path)}))


def test_a_file_for_validation_leaves_the_other_whole_for_training(tiny, tokens, raw, vocabulary):
    settings = {"data.path": tokens(), "data.validation_path": raw(IDS[:50].astype("<u2").tobytes(), "val.bin")}
    settings["data.tokenizer"] = vocabulary
    both = material(tiny(settings))
    assert (both.splits.train_size, both.splits.validation_size) == (900, 50)
    assert data_lines(both)[1].startswith("validation: ")
    assert "  training on 900 tokens, validating on 50: 6 whole windows" in data_lines(both)[2]
    again = material(both.config, both)
    assert again.sources.identity == both.sources.identity
    raw(IDS[1:51].astype("<u2").tobytes(), "val.bin")
    assert "give the recorded text with data.validation_path" in refusal(both.config, both)


def test_evaluations_that_read_more_than_is_trained_on_are_told(tiny, text_file):
    assert len(data_lines(material(tiny()))) == 2  # 90 tokens, and 96 are trained on between two evaluations
    note = data_lines(material(tiny({"train.eval_every": 2})))[-1]
    assert note.startswith("  note: an evaluation reads all 90 tokens of it, more than the 64 that are trained on")
    text_file.write_text("ab\tc\n" * 90)
    pairs = {"model.family": "encoder_decoder", "train.batch_size": 1}
    assert (
        "reads all 9 pairs of it, more than the 8 that"
        in data_lines(material(tiny(pairs | {"train.eval_every": 8})))[-1]
    )
    assert "note" not in data_lines(material(tiny(pairs | {"train.eval_every": 9})))[-1]


def test_several_files_are_mixed_by_weight_and_known_again(tiny, text_file, tokens):
    path = tokens("half.tokens", IDS[:450])
    mixed = material(tiny({"data.path": [str(text_file), path], "data.weights": [3.0, 1.0]}))
    assert (mixed.splits.train_size, mixed.splits.validation_size) == (810 + 405, 90 + 45)
    lines = data_lines(mixed)
    assert lines[0].startswith("data: 2 files by weight, 28 token ids")
    assert lines[1] == f"  75.00% (18, each 0.0224 times) are from {text_file}, 900 characters"
    assert realised_shares(mixed, 2)[1].startswith("  25.00% (2, each 0.00504 times) of the examples were from ")
    assert training_batches(mixed).places_at(0)[-1].endswith("of half.tokens")
    moved = Path(path).rename(Path(path).with_name("moved.tokens"))
    config = tiny({"data.path": [str(text_file), str(moved)], "data.weights": [3.0, 1.0]})
    assert material(config, mixed).config.data.path == (str(text_file), str(moved))
    assert "this run was on 2 files, but now there are 1" in refusal(tiny(), mixed)


def test_a_format_is_of_the_files_without_a_header(tiny, tokens, raw, vocabulary):
    path, bare = tokens(), raw(IDS[:450].astype("<u2").tobytes(), "half.ids")
    mixed = material(tiny({"data.path": [path, bare], "data.format": "uint16", "data.tokenizer": vocabulary}))
    assert [source.kind for source in mixed.sources.training] == ["a token file", "uint16 ids without a header"]
    assert same_batches(mixed, material(tiny({"data.path": [path, tokens("half.tokens", IDS[:450])]})))
    message = "data.format uint16 means nothing without a file that has no header to say what it holds; leave it out"
    assert refusal(tiny({"data.path": path, "data.format": "uint16"})) == message
    assert refusal(tiny({"data.path": None, "data.format": "uint16"})) == message


@pytest.mark.parametrize("name", ["data.validation_path", "data.path"])
def test_the_same_file_twice_is_refused(tiny, text_file, raw, name):
    copy = raw(TEXT.encode(), "copy.txt")
    settings = {name: copy} if name == "data.validation_path" else {name: [str(text_file), copy]}
    assert refusal(tiny(settings)).startswith(f"{name}: {copy} holds the same as {text_file}")


def test_an_evaluation_weighs_each_file_s_loss_as_training_does(tiny, text_file, tokens):
    paths = [str(text_file), tokens("half.tokens", IDS[:450])]
    mixed = material(tiny({"data.path": paths, "data.weights": [3.0, 1.0]}))

    def target_as_loss(params, batch):
        weights_BT = np.array(batch["weights_BT"])
        return (batch["target_ids_BT"] * weights_BT).sum(axis=1), weights_BT.sum(axis=1)

    programs = Programs(mixed.config, make_mesh(mixed.config), None, target_as_loss, 0.0)
    estimate = programs.evaluate_whole(None, mixed.splits.validation)
    expected = 0.75 * IDS[811:899].mean() + 0.25 * IDS[406:446].mean()  # 11 and 5 whole windows of 8
    assert estimate.loss == pytest.approx(expected)


def test_a_bin_has_an_end_token_where_one_occurs(tiny):
    tokenizer, ids_N = with_roles(CHARACTERS, ["eos"]), IDS[:450].astype(np.uint16)
    for end, found in ((27, None), (28, 28)):
        source = StoredIds("train.bin", "ids", np.append(ids_N, np.uint16(end)))
        assert source.checked(tokenizer, pytest.fail).end_id == found


@pytest.mark.parametrize("part", ["all", "train", "val"])
def test_a_part_of_a_file_of_ids_has_the_bytes_of_that_part(part):
    text = "über alles\n" * 9
    tokenizer = CharacterTokenizer.train(text)
    stored = StoredIds("text.bin", "ids", tokenizer.encode(text).astype(np.uint16))
    bytes_N = stored.byte_counts(tokenizer, part, 0.25)
    assert bytes_N.tolist() == Corpus.of(text, "text").byte_counts(tokenizer, part, 0.25).tolist()


def test_a_packed_run_is_evaluated_with_its_documents_apart(tiny, tokens):
    path = tokens("documents.tokens", np.where(np.arange(900) % 7 == 6, 28, IDS), with_roles(CHARACTERS, ["eos"]), 28)
    for packs in (True, False):
        run = material(tiny({"data.path": path, "data.pack_documents": packs}))
        held = OBJECTIVES["decoder"].hold(run.config, run.sources.training[0], run.tokenizer, "val", None)
        batch = held.examples.batch(np.array([0]), seed=0, draws_B=np.array([0]))
        assert ("segment_ids_BT" in batch) == packs
        assert batch["weights_BT"].all() != packs


def test_documents_are_packed_where_an_end_token_stands_between_them(tiny, tokens):
    tokenizer = with_roles(CHARACTERS, ["eos"])
    ids_N = np.where(np.arange(900) % 7 == 6, 28, IDS)
    path = tokens("documents.tokens", ids_N, tokenizer, end_id=28)
    packed = material(tiny({"data.path": path, "data.pack_documents": True}))
    for examples in (packed.splits.train, packed.splits.validation):
        batch = examples.batch(np.array([0]), seed=0, draws_B=np.array([0]))
        assert batch["segment_ids_BT"].max() == 1
    [prompt] = first_try(packed)
    CHARACTERS.encode(prompt.removeprefix("--prompt="))  # the end token's name is no text that the tokenizer can say
    assert "segment_ids_BT" not in training_batches(material(tiny({"data.path": path}))).batch_at(0)
    message = refusal(tiny({"data.pack_documents": True}))
    assert message.startswith("data.pack_documents: no end token stands between documents in ")


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        (range(810, 900), "the validation split has nothing to predict, each of the 88 tokens of its whole windows"),
        (range(809), "the training split has nothing to predict, each of the 808 tokens of its whole windows ends a"),
        (range(808), "the training split has nothing to predict"),
        (
            range(807),
            "each token of the 2 random batches that estimate the loss of the training split ends a document",
        ),
    ],
)
def test_packed_documents_without_anything_to_predict_are_refused_before_the_first_step(tiny, tokens, ends, words):
    path = tokens(
        "ends.tokens", np.where(np.isin(np.arange(900), ends), 28, IDS), with_roles(CHARACTERS, ["eos"]), 28
    )
    message = refusal(tiny({"data.path": path, "data.pack_documents": True}))
    assert message.startswith("data.pack_documents: ")
    assert words in message
    material(tiny({"data.path": path}))


def test_pairs_are_not_read_from_ids(tiny, tokens):
    path = tokens("pairs.tokens", IDS, with_roles(CHARACTERS, ["bos", "eos"]))
    message = refusal(tiny({"data.path": path, "model.family": "encoder_decoder"}))
    assert message.endswith("holds ids, but an encoder_decoder trains on lines of source TAB target; give a text")


def test_an_encoder_hides_tokens_of_a_token_file(tiny, tokens):
    settings = {"model.family": "encoder"}
    assert same_batches(material(tiny(settings)), material(tiny(settings | {"data.path": tokens()})))
