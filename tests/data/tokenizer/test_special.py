"""Special tokens stand behind a tokenizer's own ids, and text never turns into them unasked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgpt.config import RequestError
from jaxgpt.data.tokenizer import ByteTokenizer, CharacterTokenizer, tokenizer_from_json
from jaxgpt.data.tokenizer.special import ExtendedTokenizer, encode_with_special, ordinary_ids, with_roles

AB = CharacterTokenizer.train("ab<mask>")
MASKED = with_roles(AB, ["mask", "bos"])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text("ab<mask>", max_size=4) | st.just(None), max_size=6))
def test_a_text_and_its_special_tokens_come_back(parts):
    mask = MASKED.special_ids["mask"]
    ids = [i for part in parts for i in ([mask] if part is None else AB.encode(part).tolist())]
    assert MASKED.decode(ids) == "".join("<mask>" if part is None else part for part in parts)


def test_text_that_looks_like_a_special_token_is_text_unless_asked():
    assert MASKED.encode("a<mask>").tolist() == AB.encode("a<mask>").tolist()
    mask = MASKED.special_ids["mask"]
    assert encode_with_special(MASKED, "<mask>a<mask>", "mask") == [mask, *AB.encode("a").tolist(), mask]
    with pytest.raises(RequestError, match=r"has no eos token \(it has mask, bos\)"):
        encode_with_special(MASKED, "a", "eos")


def test_only_what_is_missing_is_added():
    assert with_roles(AB, []) is AB
    assert with_roles(MASKED, ["bos"]) is MASKED
    both = with_roles(MASKED, ["bos", "eos"])
    assert both.special_ids == MASKED.special_ids | {"eos": MASKED.vocab_size}
    assert ordinary_ids(both).tolist() == list(range(AB.vocab_size))


def test_it_comes_back_from_its_record_and_differs_from_its_base():
    again = tokenizer_from_json(MASKED.to_json())
    assert again == MASKED
    prints = {
        t.fingerprint() for t in (AB, MASKED, with_roles(AB, ["bos", "mask"]), with_roles(ByteTokenizer(), ["bos"]))
    }
    assert len(prints) == 4
    assert again.fingerprint() == MASKED.fingerprint()


def test_bytes_of_one_character_on_both_sides_of_a_special_token_do_not_join():
    tokenizer = with_roles(ByteTokenizer(), ["mask"])
    first, second = "ü".encode()
    assert tokenizer.decode([first, 256, second]) == "\N{REPLACEMENT CHARACTER}<mask>\N{REPLACEMENT CHARACTER}"
    assert tokenizer.decode(np.array([first, second, 256])) == "ü<mask>"


@pytest.mark.parametrize("roles", [(), ("boss",), ("bos", "bos")])
def test_roles_that_make_no_sense_are_refused(roles):
    with pytest.raises(RequestError, match="expected roles among bos, eos, pad, mask"):
        ExtendedTokenizer(AB, roles)
    with pytest.raises(RequestError, match="that the tokenizer does not fill itself"):
        ExtendedTokenizer(MASKED, ("mask",))
