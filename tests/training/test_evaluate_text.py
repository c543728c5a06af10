"""A text is measured as one would by hand: every token once, in nats, bits and bytes, whatever the batch."""

import json
import math

import jax
import numpy as np
import pytest
from small_models import random_parameters

import jaxgpt
from jaxgpt.config import ExecutionConfig, RequestError, RunConfig, WorkError
from jaxgpt.data import ByteTokenizer, CharacterTokenizer, Corpus, train_bpe
from jaxgpt.data.batches import evaluation_batches
from jaxgpt.data.stored import StoredIds
from jaxgpt.data.strided import StridedWindows
from jaxgpt.data.tokenizer.special import with_roles
from jaxgpt.training.evaluate import evaluate, make_evaluation_step
from jaxgpt.training.evaluate_text import evaluate_text

pytestmark = pytest.mark.ci  # half a minute of compilation; tests/cli/test_eval.py stays

CONTEXT = 8
TEXT = "to be, or not to be: that is the qüestion 🙂\n" * 3 + "whether"
APPLY = jax.jit(jaxgpt.apply)
SMALL = jaxgpt.ModelConfig(context_length=CONTEXT, width=8, layers=1, heads=2)


class Case:
    """A model of a family that has learned nothing, with a tokenizer."""

    def __init__(self, tokenizer, *, seed=0, spread=0.3, **changes):
        self.tokenizer = tokenizer
        self.config = RunConfig(model=SMALL.replace(vocab_size=tokenizer.vocab_size, **changes))
        self.params = random_parameters(self.config.model, seed, spread)

    def evaluate(self, text=TEXT, **options):
        return evaluate_text(self.config, self.params, Corpus.of(text, "a text"), self.tokenizer, **options)

    def log_probabilities(self, ids_T, **source):
        """Of what follows each id of one row, in float64."""
        padded_BT = np.zeros((1, CONTEXT), np.int32)
        padded_BT[0, : len(ids_T)] = ids_T
        logits_TV = np.asarray(APPLY(self.config.model, self.params, padded_BT, **source)[0], np.float64)
        return (logits_TV - np.log(np.exp(logits_TV).sum(-1, keepdims=True)))[: len(ids_T)]


@pytest.fixture(scope="module")
def characters():
    return Case(CharacterTokenizer.train(TEXT))


def nats_by_hand(case, text, stride):
    """[(place, nats)] of each predicted token, from windows that go on from where the last one ended."""
    ids, found, start = case.tokenizer.encode(text), [], 0
    while start + CONTEXT < len(ids):
        log_p = case.log_probabilities(ids[start : start + CONTEXT])
        done = found[-1][0] if found else 0
        found += [(i, -log_p[i - start - 1, ids[i]]) for i in range(done + 1, start + CONTEXT + 1)]
        start += stride
    return found


@pytest.mark.parametrize("stride", [1, 5, None])
def test_each_token_is_predicted_once_from_what_its_window_holds_before_it(characters, stride):
    result, expected = characters.evaluate(stride=stride), nats_by_hand(characters, TEXT, stride or CONTEXT)
    assert [place for place, _ in expected] == list(range(1, result.tokens + 1))
    assert result.nats_per_token.value == pytest.approx(np.mean([nats for _, nats in expected]), rel=1e-6)
    assert result.tokens + result.left_over == len(TEXT) - 1
    assert result.left_over < (stride or CONTEXT)
    assert result.rows == (result.tokens - CONTEXT) // (stride or CONTEXT) + 1


def test_no_batch_size_changes_the_result(characters):
    results = [characters.evaluate(stride=3, batch_size=size) for size in (1, 7, 64)]
    for result in results[1:]:
        np.testing.assert_allclose(result.nats_per_token, results[0].nats_per_token, rtol=1e-6)
        np.testing.assert_allclose(result.bits_per_byte, results[0].bits_per_byte, rtol=1e-6)
        assert (result.tokens, result.bytes, result.rows) == (results[0].tokens, results[0].bytes, results[0].rows)


def test_the_standard_errors_are_those_of_equal_windows_and_of_the_delta_method(characters):
    result = characters.evaluate()
    windows = np.array([nats for _, nats in nats_by_hand(characters, TEXT, CONTEXT)]).reshape(-1, CONTEXT).mean(1)
    error = windows.std(ddof=1) / math.sqrt(len(windows))
    assert result.nats_per_token.standard_error == pytest.approx(error, rel=1e-5)
    assert result.perplexity.value == pytest.approx(math.exp(windows.mean()), rel=1e-5)
    assert result.perplexity.standard_error == pytest.approx(math.exp(windows.mean()) * error, rel=1e-5)


def test_a_single_window_has_no_standard_error(characters):
    result = characters.evaluate(text=TEXT[: CONTEXT + 3])
    assert (result.rows, result.tokens, result.left_over) == (1, CONTEXT, 2)
    assert math.isnan(result.nats_per_token.standard_error)
    assert math.isnan(result.bits_per_byte.standard_error)


def test_bits_per_byte_of_bytes_are_nats_over_ln_2():
    result = Case(ByteTokenizer()).evaluate()
    assert result.bytes == result.tokens
    np.testing.assert_allclose(result.bits_per_byte, np.array(result.nats_per_token) / math.log(2), rtol=1e-12)


def test_bits_per_byte_divide_by_the_bytes_of_exactly_the_predicted_tokens():
    tokenizer = train_bpe(TEXT, 280, [])
    result, ids = Case(tokenizer).evaluate(stride=3), tokenizer.encode(TEXT)
    predicted = tokenizer.decode(ids[1 : result.tokens + 1])  # cuts no character: nothing but ASCII is at the ends
    assert "\N{REPLACEMENT CHARACTER}" not in predicted
    assert result.bytes == len(predicted.encode()) > 1.3 * result.tokens
    nats = result.nats_per_token.value * result.tokens
    assert result.bits_per_byte.value == pytest.approx(nats / math.log(2) / len(predicted.encode()))


def test_special_tokens_alone_have_no_bits_per_byte():
    case, ends = Case(with_roles(ByteTokenizer(), ["eos"])), np.full(9, 256, np.uint16)
    result = evaluate_text(case.config, case.params, StoredIds("ends", "ids", ends), case.tokenizer)
    assert (result.tokens, result.bytes, result.bits_per_byte) == (8, 0, None)
    assert math.isfinite(result.nats_per_token.value)


def test_bytes_of_characters_are_those_of_utf_8(characters):
    result = characters.evaluate()
    assert result.bytes == len(TEXT[1 : result.tokens + 1].encode()) > result.tokens


@pytest.mark.parametrize(("part", "text"), [("train", TEXT[:-30]), ("val", TEXT[-30:])])
def test_a_part_is_what_training_cuts_off(characters, part, text):
    config = characters.config
    fraction = 30 / len(TEXT)
    cut = RunConfig(model=config.model, data=config.data.replace(validation_fraction=fraction))
    whole = Corpus.of(TEXT, "a text")
    result = evaluate_text(cut, characters.params, whole, characters.tokenizer, part=part)
    assert result == characters.evaluate(text=text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stride": 9}, "stride: expected 1 to 8, the context, got 9"),
        ({"stride": 0}, "stride: expected 1 to 8, the context, got 0"),
        ({"batch_size": 0}, "the batch size should be at least 1, got 0"),
        ({"text": TEXT[:1]}, "the text has 1 tokens, but one window of this model takes 2; give more text"),
        ({"text": TEXT + "x"}, "character 'x' (U+0078) at position"),
    ],
    ids=str,
)
def test_what_cannot_be_measured_is_refused(characters, options, message):
    with pytest.raises(RequestError) as caught:
        characters.evaluate(**options)
    assert str(caught.value).startswith(message)


def test_a_text_below_one_context_is_read_in_one_shorter_window(characters):
    result = characters.evaluate(text=TEXT[:6])
    assert (result.rows, result.stride, result.tokens, result.left_over) == (1, 5, 5, 0)
    log_p = characters.log_probabilities(characters.tokenizer.encode(TEXT[:5]))
    ids = characters.tokenizer.encode(TEXT[:6])[1:]
    assert result.nats_per_token.value == pytest.approx(-log_p[np.arange(5), ids].mean(), rel=1e-6)


def test_a_tokenizer_with_more_ids_than_the_model_is_refused(characters):
    larger = with_roles(characters.tokenizer, ["bos"])
    with pytest.raises(RequestError, match=f"the tokenizer has {larger.vocab_size} ids, the model only"):
        evaluate_text(characters.config, characters.params, Corpus.of(TEXT, "a text"), larger)


def test_a_loss_that_is_no_number_is_a_failure_that_names_the_window(characters):
    broken = jax.tree.map(np.copy, characters.params)
    place = characters.tokenizer.encode("🙂")[0]
    broken["token_embedding"][place] = np.inf
    with pytest.raises(WorkError, match="the loss of the window at token 0 is not finite"):  # the head is tied
        evaluate_text(characters.config, broken, Corpus.of(TEXT, "a text"), characters.tokenizer)


@pytest.fixture(scope="module")
def encoder():
    return Case(with_roles(CharacterTokenizer.train(TEXT), ["mask"]), family="encoder")


def test_an_encoder_is_measured_on_the_tokens_that_are_hidden_from_it(encoder):
    result, ids = encoder.evaluate(), encoder.tokenizer.encode(TEXT)
    assert (result.rows, result.left_over) == (len(ids) // CONTEXT, len(ids) % CONTEXT)
    assert result.description.endswith(f"15% hidden, {result.left_over} tokens left over")
    assert 0.05 < result.tokens / len(ids) < 0.3
    in_small_batches = encoder.evaluate(batch_size=5)
    np.testing.assert_allclose(in_small_batches.nats_per_token, result.nats_per_token, rtol=1e-6)
    assert in_small_batches.bytes == result.bytes


def test_bytes_of_hidden_tokens_are_their_own(encoder):
    result = encoder.evaluate(text="ü" * 100)
    assert result.bytes == 2 * result.tokens > 0


def test_a_stride_means_nothing_for_an_encoder(encoder):
    with pytest.raises(RequestError, match="a stride means nothing for a model of family encoder: its windows lie"):
        encoder.evaluate(stride=4)


class Writer(Case):
    """An encoder_decoder that writes several things."""

    def __init__(self):
        tokenizer = with_roles(CharacterTokenizer.train("abcé"), ["bos", "eos"])
        super().__init__(tokenizer, seed=26, spread=1, family="encoder_decoder", head_bias=True)
        self.params["lm_head"]["bias"][:] = [0, 0, 0, 0, -1e3, 1]  # never the start token, sometimes the end
        self.bos, self.eos = tokenizer.special_ids["bos"], tokenizer.special_ids["eos"]

    def after(self, source, ids_T):
        source_ids_BS = np.zeros((1, CONTEXT), np.int32)
        source_ids_BS[0, : len(source)] = self.tokenizer.encode(source)
        mask_BS = np.arange(CONTEXT)[None] < len(source)
        return self.log_probabilities(ids_T, source_ids_BS=source_ids_BS, source_mask_BS=mask_BS)

    def written_by_hand(self, source):
        """The most likely token each time, one row at a time."""
        ids = [self.bos]
        while len(ids) < CONTEXT and ids[-1] != self.eos:
            ids.append(int(self.after(source, ids)[-1].argmax()))
        return self.tokenizer.decode(ids).removeprefix("<bos>").removesuffix("<eos>")

    def nats_by_hand(self, source, target):
        """Of the target and the end token."""
        ids = [self.bos, *self.tokenizer.encode(target).tolist()]
        return -self.after(source, ids)[np.arange(len(ids)), [*ids[1:], self.eos]].sum()


@pytest.fixture(scope="module")
def writer():
    return Writer()


@pytest.fixture(scope="module")
def pairs(writer):
    """Pairs of which the model writes the first three without an error; those behind them it does not."""
    right = [(source, writer.written_by_hand(source)) for source in ("abc", "écc", "céa")]
    assert sorted(len(target) for _, target in right) == [1, 2, 4]
    return [*right, ("cab", "é"), ("aa", "bc")]


def as_text(pairs):
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


@pytest.mark.ci
def test_pairs_are_measured_on_target_and_end_and_on_what_is_written(writer, pairs):
    result = writer.evaluate(text=as_text(pairs), batch_size=2)
    nats = sum(writer.nats_by_hand(*pair) for pair in pairs)
    targets = [target for _, target in pairs]
    assert (result.rows, result.tokens) == (5, sum(map(len, targets)) + 5)
    assert result.nats_per_token.value == pytest.approx(nats / result.tokens, rel=1e-6)
    assert result.bytes == len("".join(targets).encode())
    assert result.bits_per_byte.value == pytest.approx(nats / math.log(2) / result.bytes, rel=1e-6)
    np.testing.assert_allclose(result.exact_match, (3 / 5, math.sqrt(0.6 * 0.4 / 4)))


def test_a_part_of_the_pairs_is_cut_by_number(writer, pairs):
    config = RunConfig(model=writer.config.model, data=writer.config.data.replace(validation_fraction=0.4))
    corpus = Corpus.of(as_text(pairs), "a text")
    validation = evaluate_text(config, writer.params, corpus, writer.tokenizer, part="val")
    assert validation == writer.evaluate(text=as_text(pairs[3:]))
    assert validation.exact_match.value == 0


def test_a_part_without_a_pair_is_refused(writer, pairs):
    config = RunConfig(model=writer.config.model)
    corpus = Corpus.of(as_text(pairs[:1]), "a text")
    with pytest.raises(RequestError, match="the training split of a text has no pair; give more pairs, or another"):
        evaluate_text(config, writer.params, corpus, writer.tokenizer, part="train")


def test_a_stride_means_nothing_for_pairs(writer, pairs):
    with pytest.raises(RequestError, match="a stride means nothing for a model of family encoder_decoder: it reads"):
        writer.evaluate(text=as_text(pairs), stride=4)


def test_a_trained_model_reaches_the_loss_that_transformers_finds(test_data):
    folder = test_data / "stories260K"
    document = json.loads((folder / "expected.json").read_text())
    ids_N = np.array(document["input_ids"], np.int32)
    config, params, _ = jaxgpt.load(folder / "hf")
    windows = StridedWindows(ids_N, context_length=len(ids_N) - 1, stride=1)
    step = jax.jit(make_evaluation_step(config, ExecutionConfig()))
    result = evaluate(step, params, evaluation_batches(windows, batch_size=1))
    assert result.loss == pytest.approx(document["loss_mean_next_token"], abs=1e-5)
    assert result.tokens == len(ids_N) - 1
