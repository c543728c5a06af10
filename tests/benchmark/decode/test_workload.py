"""The bytes that a step reads, counted by hand, and what is refused before any work."""

import pytest

from jaxgpt import ModelConfig, RequestError
from jaxgpt.benchmark.decode.workload import Workload

# Width 4, one block, 2 heads of 2: q, k, v, out 4 x 4 + 4 each, up 4 x 16 + 16, down 16 x 4 + 4, 3 norms of 4 + 4.
CONFIG = ModelConfig(vocab_size=5, context_length=8, width=4, layers=1, heads=2)
BLOCK_AND_NORMS = 4 * (16 + 4) + (64 + 16) + (64 + 4) + 3 * 8


def test_a_tied_embedding_is_read_whole_and_a_position_looked_up():
    assert Workload(CONFIG, 1, 2, 3).weight_bytes == 4 * (BLOCK_AND_NORMS + 5 * 4)
    assert Workload(CONFIG, 8, 2, 3).weight_bytes == 4 * (BLOCK_AND_NORMS + 5 * 4)


def test_of_an_own_head_and_an_embedding_only_the_head_is_read():
    own_head = CONFIG.replace(tied_head=False, vocab_size=7)
    assert Workload(own_head, 1, 2, 3).weight_bytes == 4 * (BLOCK_AND_NORMS + 4 * 7)


def test_a_step_reads_the_keys_and_values_of_what_it_sees():
    # Steps 1 to 3 behind a prompt of 2 see 3, 4 and 5 tokens; each has 2 heads of 2 keys and as many values.
    assert Workload(CONFIG, 1, 2, 4).cache_bytes == 4 * (2 * 2 * 2) * 4
    assert Workload(CONFIG, 3, 2, 4).cache_bytes == 3 * 4 * (2 * 2 * 2) * 4
    assert Workload(CONFIG.replace(kv_heads=1), 1, 2, 4).cache_bytes == 4 * (2 * 1 * 2) * 4
    assert Workload(CONFIG.replace(layers=3), 1, 2, 4).cache_bytes == 3 * 4 * (2 * 2 * 2) * 4


def test_a_window_bounds_what_is_seen():
    assert Workload(CONFIG.replace(window=4), 1, 2, 4).cache_bytes == pytest.approx(4 * 8 * (3 + 4 + 4) / 3)


def test_a_step_of_gpt2_reads_all_but_its_positions():
    workload = Workload(ModelConfig.preset("gpt2"), 1, 16, 48)
    assert workload.weight_bytes == 4 * (124_439_808 - 1024 * 768)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 2, 3), "--batch: expected at least 1, got 0"),
        ((1, 0, 3), "--prompt-length: expected at least 1, got 0"),
        ((1, 2, 1), "--new-tokens: expected at least 2, got 1"),
        ((1, 5, 4), "--prompt-length 5 and --new-tokens 4 are 9 tokens, above the context of 8; ask for fewer"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(sizes, message):
    with pytest.raises(RequestError, match=message):
        Workload(CONFIG, *sizes)


def test_only_a_decoder_continues_text():
    with pytest.raises(RequestError, match="expected a decoder, got a model of family encoder"):
        Workload(CONFIG.replace(family="encoder"), 1, 2, 3)


def test_prompts_are_drawn_from_the_seed_and_stand_before_the_text():
    one, other = (Workload(CONFIG, 2, 3, 4, seed).prompts() for seed in (0, 1))
    assert one != other
    assert Workload(CONFIG, 2, 3, 4).text()[:, :3].tolist() == one
    assert Workload(CONFIG, 2, 3, 4).text().shape == (2, 7)
