"""transformers' processors, in the order in which it runs them, leave the distribution that is drawn from here."""

import jax
import numpy as np
import pytest
from peering import peer

from jaxgpt.generation import filters
from jaxgpt.generation.sampling import Sampling, kept_tokens

pytestmark = pytest.mark.ci
torch = peer("torch")
transformers = peer("transformers")

V = 500
CASES = {
    "penalty": {"repetition_penalty": 1.7},
    "penalty below 1": {"repetition_penalty": 0.6},
    "temperature": {"temperature": 0.6},
    "top_k": {"top_k": 40},
    "top_p": {"top_p": 0.8},
    "min_p": {"min_p": 0.05},
    "k and p": {"temperature": 1.4, "top_k": 30, "top_p": 0.7},
    "all": {"repetition_penalty": 1.3, "temperature": 0.8, "top_k": 200, "top_p": 0.95, "min_p": 0.02},
}


def their_scores(logits_BV, ids_BT, options):
    """Their scores after all processors; generate builds the list from the config, so its order is theirs."""
    config = transformers.GPT2Config(vocab_size=V, n_positions=8, n_embd=8, n_layer=1, n_head=1)
    model = transformers.GPT2LMHeadModel(config).eval()
    model.forward = lambda input_ids, **_: transformers.modeling_outputs.CausalLMOutputWithCrossAttentions(
        logits=torch.tensor(logits_BV)[:, None].expand(-1, input_ids.shape[1], -1)
    )
    result = model.generate(
        torch.tensor(ids_BT), do_sample=True, max_new_tokens=1, use_cache=False, pad_token_id=0,
        output_scores=True, return_dict_in_generate=True, **({"top_k": 0} | options),
    )  # fmt: skip
    return result.scores[0].numpy()


def our_scores(logits_BV, ids_BT, options):
    sampling = Sampling(**options).traced(V)
    seen_BV = np.zeros(logits_BV.shape, bool)
    np.put_along_axis(seen_BV, ids_BT, True, axis=1)
    penalised_BV = filters.penalised(logits_BV, seen_BV, sampling.repetition_penalty)
    distance_BV = filters.distances(penalised_BV, sampling.temperature, sampling.drawable_ids)
    return np.where(kept_tokens(distance_BV, sampling).mask(distance_BV), -distance_BV, -np.inf)


@pytest.mark.parametrize("name", CASES)
def test_their_processors_leave_the_same_distribution(name):
    rng = np.random.default_rng(len(name))
    logits_BV = rng.normal(0, 3, (4, V)).astype(np.float32)
    ids_BT = rng.integers(0, V, (4, 60))
    theirs_BV, ours_BV = (scores(logits_BV, ids_BT, CASES[name]) for scores in (their_scores, our_scores))
    assert (np.isfinite(ours_BV) == np.isfinite(theirs_BV)).all()
    assert name in ("penalty", "penalty below 1", "temperature") or np.isinf(ours_BV).any()
    np.testing.assert_allclose(jax.nn.softmax(ours_BV), jax.nn.softmax(theirs_BV), atol=1e-6)
