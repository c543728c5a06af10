"""Spoilt headers of safetensors files: the parameters that were written, bit for bit, or one message.

Accepted silently would be: parameters with other bits, of another shape, or read as another type of number.
"""

from __future__ import annotations

import json

import hypothesis.strategies as st
import pytest
from foreign_models import GPT2, gpt2_arrays, same_bits, write_safetensors
from fuzzing import CHANGES, fuzz, fuzzed, one_message, spoilt

from jaxgpt.config import RequestError
from jaxgpt.interop.hugging_face import read_folder

# Changes that a header is prone to, beside random ones.
WORDS = ["F32", "F16", "I32", "U32", "BF16", "shape", "dtype", "data_offsets", "h.0.", "h.1.", "ln_1", "[4,", "wte"]


@pytest.mark.parametrize("dtype", ["F32", "F16"])
@fuzzed
def test_a_spoilt_header_gives_the_same_parameters_or_one_message(tmp_path, dtype, examples):
    (tmp_path / "config.json").write_text(json.dumps(GPT2))
    path = tmp_path / "model.safetensors"
    write_safetensors(path, gpt2_arrays(), dtype)
    data = path.read_bytes()
    header = 8 + int.from_bytes(data[:8], "little")
    whole = read_folder(tmp_path, pytest.fail).params

    def check(swap, changes):
        one, other = (word.encode() for word in swap)
        changed = data[:8] + data[8:header].replace(one, other, 1).ljust(header - 8) + data[header:]
        path.write_bytes(spoilt(changed, changes, end=header))
        try:
            params = read_folder(tmp_path, lambda _: None).params
        except RequestError as error:
            one_message(error)
            return
        assert same_bits(params, whole)

    words = st.sampled_from(WORDS)
    fuzz(examples // 2, check, st.tuples(words, words), st.just([]) | CHANGES)
