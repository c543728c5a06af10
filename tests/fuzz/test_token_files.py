"""Spoilt token files: the header and the ids that were written, or one message.

Accepted silently would be: other ids, more or fewer of them, another tokenizer, another end token.
"""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from fuzzing import CHANGES, fuzz, fuzzed, one_message, spoilt

from jaxgpt.config import RequestError
from jaxgpt.data.token_file import TokenFile, write_token_file
from jaxgpt.data.tokenizer import CharacterTokenizer

TEXT = "the quick brown fox jumps over the lazy dog\n" * 4


@fuzzed
def test_a_spoilt_token_file_gives_what_was_written_or_one_message(tmp_path, examples):
    path, tokenizer = tmp_path / "tokens", CharacterTokenizer.train(TEXT)
    ids_N = tokenizer.encode(TEXT)
    write_token_file(path, ids_N, tokenizer, source="a fox", end_id=int(ids_N[43]), documents=4)
    data, header = path.read_bytes(), TokenFile.open(path).header

    def check(changes, in_header):
        end = len(data) - 2 * len(ids_N) if in_header else None
        path.write_bytes(spoilt(data, changes, end=end))
        try:
            opened = TokenFile.open(path)
            opened.check()
        except RequestError as error:
            one_message(error)
            return
        assert opened.header == header
        assert np.array_equal(opened.ids_N, ids_N)
        assert opened.tokenizer.decode(opened.ids_N) == TEXT

    fuzz(examples, check, CHANGES, st.booleans())
