"""llama2.c files, written here as llama2.c's export.py lays them out."""

import numpy as np
import pytest

from jaxgpt import RequestError
from jaxgpt.interop.llama2c import read_file

NAMES = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "max_seq_len")
SIZES = (8, 3, 2, 2, 1, 7, 5)  # heads of four features: two pairs
SHAPES = {  # of one block, in the file's order of kinds
    "rms_att": (8,), "wq": (8, 8), "wk": (4, 8), "wv": (4, 8), "wo": (8, 8),
    "rms_ffn": (8,), "w1": (3, 8), "w2": (8, 3), "w3": (3, 8),
}  # fmt: skip


@pytest.fixture
def arrays():
    """{kind: an array, or one per block}."""
    rng = np.random.default_rng(0)
    blocks = {kind: rng.standard_normal((2, *shape)).astype("<f4") for kind, shape in SHAPES.items()}
    ends = {"embedding": (7, 8), "rms_final": (8,), "cosines": (5, 2), "sines": (5, 2), "wcls": (7, 8)}
    return blocks | {kind: rng.standard_normal(shape).astype("<f4") for kind, shape in ends.items()}


@pytest.fixture
def write(tmp_path, arrays):
    """Return a function of a header that writes the file and returns its path."""

    def run(sizes=SIZES, *, tied=True):
        order = ["embedding", *SHAPES, "rms_final", "cosines", "sines", *([] if tied else ["wcls"])]
        path = tmp_path / "model.bin"
        path.write_bytes(np.array(sizes, "<i4").tobytes() + b"".join(arrays[kind].tobytes() for kind in order))
        return path

    return run


def test_every_array_lies_where_the_forward_pass_reads_it(write, arrays):
    reading = read_file(write())
    config = reading.config
    assert (config.width, config.hidden_width, config.layers, config.heads) == (8, 3, 2, 2)
    assert (config.key_value_heads, config.vocab_size, config.context_length, config.head_width) == (1, 7, 5, 4)
    assert (config.norm_epsilon, config.rope_theta, config.rope_pairing, config.tied_head) == (
        1e-5,
        1e4,
        "half",
        True,
    )
    assert (reading.tokenizer, reading.source) == (None, "llama2.c file, float32")
    assert np.array_equal(reading.params["token_embedding"], arrays["embedding"])
    assert np.array_equal(reading.params["final_norm"]["scale"], arrays["rms_final"])
    for i in range(2):
        block = reading.params[f"blocks_{i}"]
        for j, row in enumerate([0, 2, 1, 3]):  # the first features of both pairs, then the second ones
            assert np.array_equal(block["attention"]["q"]["kernel"][:, 1, j], arrays["wq"][i, 4 + row])
            assert np.array_equal(block["attention"]["k"]["kernel"][:, 0, j], arrays["wk"][i, row])
            assert np.array_equal(block["attention"]["v"]["kernel"][:, 0, j], arrays["wv"][i, j])
            assert np.array_equal(block["attention"]["out"]["kernel"][1, j], arrays["wo"][i, :, 4 + j])
        for ours, theirs in (("gate", "w1"), ("down", "w2"), ("up", "w3")):
            assert np.array_equal(block["ffn"][ours]["kernel"], arrays[theirs][i].T)
        assert np.array_equal(block["ln1"]["scale"], arrays["rms_att"][i])
        assert np.array_equal(block["ln2"]["scale"], arrays["rms_ffn"][i])


def test_a_negative_vocabulary_means_a_head_of_its_own(write, arrays):
    reading = read_file(write((8, 3, 2, 2, 1, -7, 5), tied=False))
    assert (reading.config.vocab_size, reading.config.tied_head) == (7, False)
    assert np.array_equal(reading.params["lm_head"]["kernel"], arrays["wcls"].T)


@pytest.mark.parametrize("change", [-4, -1, 1, 4])
def test_a_length_that_does_not_fit_the_header_is_refused(write, change):
    path = write()
    whole = path.read_bytes()
    path.write_bytes(whole[:change] if change < 0 else whole + bytes(change))
    with pytest.raises(RequestError) as refusal:
        read_file(path)
    assert f"has {len(whole) + change} bytes, but its header (dim 8, hidden_dim 3, " in str(refusal.value)
    assert f"asks for {len(whole)}; it is cut off, damaged or no llama2.c file" in str(refusal.value)


@pytest.mark.parametrize("place", range(7), ids=NAMES)
@pytest.mark.parametrize("wrong", [0, -1, 2**31 - 1])
def test_a_header_without_sizes_is_refused(write, place, wrong):
    sizes = list(SIZES)
    sizes[place] = wrong
    with pytest.raises(RequestError, match=r"model.bin (is no llama2.c file|has \d+ bytes, but its header)"):
        read_file(write(tuple(sizes)))


def test_a_later_version_and_an_empty_file_are_refused(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(np.array([0x616B3432, 2, *SIZES], "<i4").tobytes())
    with pytest.raises(RequestError, match=r"is a llama2.c file of a later version; jaxgpt reads version 0"):
        read_file(path)
    path.write_bytes(b"")
    with pytest.raises(RequestError, match=r"has 0 bytes, less than the header of a llama2.c file"):
        read_file(path)
