"""Hugging Face folders: every array where it belongs, every spelling, and nothing guessed."""

import json
import re

import numpy as np
import pytest
from foreign_models import GPT2, LLAMA, gpt2_arrays, llama_arrays, same_bits, write_safetensors

from jaxgpt import RequestError
from jaxgpt.interop.hugging_face import read_folder


def test_every_array_of_gpt2_lies_where_the_forward_pass_reads_it(read):
    """Conv1D multiplies x @ W: rows are inputs; c_attn has queries, keys and values side by side, head by head."""
    arrays = gpt2_arrays()
    params = read(GPT2, arrays).params
    for i in range(2):
        ours, theirs = params[f"blocks_{i}"], f"transformer.h.{i}."
        for number, name in enumerate("qkv"):
            columns = slice(4 * number, 4 * number + 4)
            wanted = arrays[theirs + "attn.c_attn.weight"][:, columns]
            assert np.array_equal(ours["attention"][name]["kernel"][:, 1, 0], wanted[:, 2])
            assert np.array_equal(np.reshape(ours["attention"][name]["kernel"], (4, 4)), wanted)
            wanted = arrays[theirs + "attn.c_attn.bias"][columns]
            assert np.array_equal(np.ravel(ours["attention"][name]["bias"]), wanted)
        out = ours["attention"]["out"]
        assert np.array_equal(out["kernel"][1, 0], arrays[theirs + "attn.c_proj.weight"][2])
        assert np.array_equal(np.reshape(out["kernel"], (4, 4)), arrays[theirs + "attn.c_proj.weight"])
        assert np.array_equal(out["bias"], arrays[theirs + "attn.c_proj.bias"])
        for ffn, mlp in (("up", "c_fc"), ("down", "c_proj")):
            assert np.array_equal(ours["ffn"][ffn]["kernel"], arrays[f"{theirs}mlp.{mlp}.weight"])
            assert np.array_equal(ours["ffn"][ffn]["bias"], arrays[f"{theirs}mlp.{mlp}.bias"])
        for norm in "12":
            assert np.array_equal(ours[f"ln{norm}"]["scale"], arrays[f"{theirs}ln_{norm}.weight"])
            assert np.array_equal(ours[f"ln{norm}"]["bias"], arrays[f"{theirs}ln_{norm}.bias"])
    assert np.array_equal(params["token_embedding"], arrays["transformer.wte.weight"])
    assert np.array_equal(params["position_embedding"], arrays["transformer.wpe.weight"])
    assert np.array_equal(params["final_norm"]["scale"], arrays["transformer.ln_f.weight"])
    assert "lm_head" not in params  # tied: one array


def test_every_array_of_llama_lies_where_the_forward_pass_reads_it(read):
    """Linear multiplies x @ W.T: rows are outputs."""
    arrays = llama_arrays()
    params = read(LLAMA, arrays).params
    for i in range(2):
        ours, theirs = params[f"blocks_{i}"], f"model.layers.{i}."
        for name, heads in (("q", 4), ("k", 2), ("v", 2)):
            wanted = arrays[f"{theirs}self_attn.{name}_proj.weight"]
            assert ours["attention"][name]["kernel"].shape == (8, heads, 2)
            assert np.array_equal(ours["attention"][name]["kernel"][:, 1, 0], wanted[2])
            assert np.array_equal(np.reshape(ours["attention"][name]["kernel"], (8, 2 * heads)), wanted.T)
        assert np.array_equal(
            ours["attention"]["out"]["kernel"][1, 0], arrays[theirs + "self_attn.o_proj.weight"][:, 2]
        )
        for name in ("gate", "up", "down"):
            assert np.array_equal(ours["ffn"][name]["kernel"], arrays[f"{theirs}mlp.{name}_proj.weight"].T)
        assert np.array_equal(ours["ln1"]["scale"], arrays[theirs + "input_layernorm.weight"])
        assert np.array_equal(ours["ln2"]["scale"], arrays[theirs + "post_attention_layernorm.weight"])
    assert np.array_equal(params["token_embedding"], arrays["model.embed_tokens.weight"])
    assert np.array_equal(params["final_norm"]["scale"], arrays["model.norm.weight"])
    assert np.array_equal(params["lm_head"]["kernel"], arrays["lm_head.weight"].T)


SPELLINGS = {
    "transformer.h.0": ("", ""),
    "h.0": ("", "keys without the prefix transformer."),
    "_orig_mod.transformer.h.0": ("_orig_mod.", "prefix _orig_mod. stripped"),
    "module.transformer.h.0": ("module.", "prefix module. stripped"),
    "module._orig_mod.h.0": (
        "module._orig_mod.",
        "prefix module._orig_mod. stripped, keys without the prefix transformer.",
    ),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("tied", [True, False])
def test_every_spelling_gives_the_same_tree_and_is_reported(read, spelling, tied):
    wrapper, note = SPELLINGS[spelling]
    arrays = gpt2_arrays() | ({} if tied else {"lm_head.weight": np.ones((7, 4), np.float32)})
    bare = {key if "transformer" in spelling else key.removeprefix("transformer."): a for key, a in arrays.items()}
    reading = read(GPT2 | {"tie_word_embeddings": tied}, {wrapper + key: array for key, array in bare.items()})
    assert same_bits(reading.params, read(GPT2 | {"tie_word_embeddings": tied}, arrays).params)
    assert reading.source == ", ".join(filter(None, [f"Hugging Face gpt2 folder, {len(arrays)} keys, float32", note]))


def test_llama_s_keys_may_lack_the_base_too(read):
    arrays = llama_arrays()
    bare = {key.removeprefix("model."): array for key, array in arrays.items()}
    assert same_bits(read(LLAMA, bare).params, read(LLAMA, arrays).params)


def test_masks_and_frequencies_of_older_versions_are_ignored(read):
    old = {
        f"transformer.h.{i}.attn.{name}": np.ones((1, 1, 5, 5)) for i in (0, 1) for name in ("bias", "masked_bias")
    }
    assert same_bits(read(GPT2, gpt2_arrays() | old).params, read(GPT2, gpt2_arrays()).params)
    old = {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": np.ones(1) for i in (0, 1)}
    assert same_bits(read(LLAMA, llama_arrays() | old).params, read(LLAMA, llama_arrays()).params)


@pytest.mark.parametrize(
    "key",
    [
        "transformer.h.2.attn.bias",  # there is no block 2
        "transformer.h.0.mlp.bias",
        "transformer.h.0.attn.c_attn.masked_bias",
        "transformer.attn.bias",
        "transformer.h.0.attn.rotary_emb.inv_freq",  # Llama's
        "lm_head.bias",
        "h.0.attn.bias",  # another spelling than the rest
        "_orig_mod.transformer.h.0.attn.bias",
    ],
)
def test_nothing_else_that_looks_like_one_is_ignored(folder, key):
    path = folder(GPT2, gpt2_arrays() | {key: np.ones(4)})
    with pytest.raises(
        RequestError, match=rf"does not hold the model of its config.json: surplus: {re.escape(key)};"
    ):
        read_folder(path, pytest.fail)


def test_all_that_is_wrong_with_the_keys_is_said_at_once(folder):
    arrays = gpt2_arrays()
    arrays["transformer.h.0.attn.c_attn.weight"] = arrays["transformer.h.0.attn.c_attn.weight"].T  # as Linear has it
    del arrays["transformer.ln_f.bias"]
    arrays["score.weight"] = np.ones((2, 4))
    with pytest.raises(RequestError) as refusal:
        read_folder(folder(GPT2, arrays), pytest.fail)
    message = str(refusal.value)
    assert "transformer.h.0.attn.c_attn.weight is float32[12,4], expected float32[4,12]" in message
    assert "missing: transformer.ln_f.bias" in message
    assert "surplus: score.weight" in message


def test_a_tied_head_stored_twice_is_one_array(read):
    arrays = gpt2_arrays()
    arrays["lm_head.weight"] = arrays["transformer.wte.weight"]
    assert "lm_head" not in read(GPT2, arrays).params


def test_a_head_that_differs_from_the_embedding_it_is_tied_to_is_refused(folder):
    arrays = gpt2_arrays()
    arrays["lm_head.weight"] = arrays["transformer.wte.weight"].copy()
    arrays["lm_head.weight"][6, 3] += 1e-3
    with pytest.raises(RequestError, match=r"lm_head.weight differs from transformer.wte.weight.*set it to false"):
        read_folder(folder(GPT2, arrays), pytest.fail)
    untied = read_folder(folder(GPT2 | {"tie_word_embeddings": False}, arrays), pytest.fail)
    assert np.array_equal(untied.params["lm_head"]["kernel"], arrays["lm_head.weight"].T)


def test_an_untied_model_needs_its_head(folder):
    with pytest.raises(RequestError, match=r"missing: lm_head.weight"):
        read_folder(folder(GPT2 | {"tie_word_embeddings": False}, gpt2_arrays()), pytest.fail)


@pytest.mark.parametrize(("dtype", "words"), [("F32", "float32"), ("F16", "float16"), ("BF16", "bfloat16")])
def test_half_precision_becomes_the_same_numbers_in_float32(read, dtype, words):
    arrays = {key: np.round(8 * array) / 8 for key, array in gpt2_arrays().items()}  # representable in all three
    reading = read(GPT2, arrays, dtype=dtype)
    assert words in reading.source.split(", ")
    assert reading.params["token_embedding"].dtype == np.float32
    assert np.array_equal(reading.params["token_embedding"], arrays["transformer.wte.weight"])


@pytest.mark.parametrize("dtype", ["F64", "I8"])
def test_other_dtypes_are_refused_by_name(folder, dtype):
    with pytest.raises(RequestError, match=rf"no float32, float16, bfloat16: transformer.h.0.* {dtype} and 25 more"):
        read_folder(folder(GPT2, gpt2_arrays(), dtype=dtype), pytest.fail)


@pytest.mark.parametrize("kept", [0, 5, 60, 0.5, 0.999])
def test_a_file_cut_off_anywhere_is_one_message(folder, kept):
    path = folder(GPT2, gpt2_arrays()) / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole)) if kept < 1 else kept])
    with pytest.raises(RequestError, match=r"model.safetensors \(\d+ bytes\) is cut off, damaged.* get a whole copy"):
        read_folder(path.parent, pytest.fail)


def test_the_pointer_that_git_leaves_is_named(folder):
    path = folder(GPT2, gpt2_arrays()) / "model.safetensors"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 548105171\n")
    with pytest.raises(RequestError, match=r"model.safetensors is a Git LFS pointer, not the file itself; fetch it"):
        read_folder(path.parent, pytest.fail)


def sharded(folder, arrays, *, listed=None):
    """Write two shards and their index."""
    path = folder(GPT2)
    keys = list(arrays)
    shards = {"model-00001-of-00002.safetensors": keys[:9], "model-00002-of-00002.safetensors": keys[9:]}
    for name, held in shards.items():
        write_safetensors(path / name, {key: arrays[key] for key in held})
    weight_map = {key: name for name, held in shards.items() for key in held} | (listed or {})
    (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return path


def test_shards_are_read_by_their_index(folder, read):
    path = sharded(folder, gpt2_arrays())
    assert same_bits(read_folder(path, pytest.fail).params, read(GPT2, gpt2_arrays()).params)


def test_an_index_that_does_not_fit_its_shards_is_refused(folder):
    first = "model-00001-of-00002.safetensors"
    with pytest.raises(RequestError, match=rf"{first} does not hold what .*index.json lists for it: extra.weight;"):
        read_folder(sharded(folder, gpt2_arrays(), listed={"extra.weight": first}), pytest.fail)
    with pytest.raises(RequestError, match=r"names ../away.safetensors; expected files of the same folder"):
        read_folder(sharded(folder, gpt2_arrays(), listed={"extra.weight": "../away.safetensors"}), pytest.fail)
    path = sharded(folder, gpt2_arrays())
    (path / first).unlink()
    with pytest.raises(RequestError, match=rf"cannot read .*{first}: No such file"):
        read_folder(path, pytest.fail)
    (path / "model.safetensors.index.json").write_text("[]")
    with pytest.raises(RequestError, match=r"index.json: expected JSON with an object weight_map"):
        read_folder(path, pytest.fail)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "pytorch_model.bin.index.json"])
def test_pickles_are_refused_by_name(folder, name):
    path = folder(GPT2)
    (path / name).write_bytes(b"\x80\x02}q\x00.")
    with pytest.raises(
        RequestError, match=rf"{name} is a pickle, which can run any code.* convert .* to safetensors"
    ):
        read_folder(path, pytest.fail)


def test_a_folder_without_weights_says_what_it_holds(folder):
    with pytest.raises(RequestError, match=r"has no model.safetensors; it holds config.json: get the file"):
        read_folder(folder(GPT2), pytest.fail)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"config.json is not whole JSON"),
        ("[]", r"config.json: expected an object, got list"),
        ("{}", r"config.json: model_type is missing; add the one that the weights have, of gpt2, llama, mistral"),
        (
            '{"model_type": "gpt_2"}',
            r"config.json: model_type 'gpt_2' is not one that jaxgpt reads; did you mean 'gpt2'",
        ),
    ],
)
def test_a_config_json_that_is_none_is_one_message(folder, text, message):
    path = folder(GPT2, gpt2_arrays())
    (path / "config.json").write_text(text)
    with pytest.raises(RequestError, match=message):
        read_folder(path, pytest.fail)
