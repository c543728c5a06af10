"""What a trained model shows of itself, family by family: text it continues, masks it fills, targets it writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from jaxgpt.data.examples import Batch
from jaxgpt.data.tokenizer.special import ordinary_ids
from jaxgpt.generation.fill import fill
from jaxgpt.generation.generate import generate
from jaxgpt.model.parameters import Params
from jaxgpt.ops.keys import random_key

from .exact_match import write_pairs
from .material import Material

_TEMPERATURE = 0.8  # of continued text
_TEXTS_FILLED, _PAIRS_SHOWN, _PAIRS_SCORED = 32, 6, 256


class Showing(NamedTuple):
    """How a family is shown.

    Attributes:
        sample: Returns lines for the user: what the trained model makes of held-out examples.
        arguments: Returns the arguments of `jaxgpt generate` for a first try.
    """

    sample: Callable[[Material, Params], list[str]]
    arguments: Callable[[Material], list[str]]


def _held_out(material: Material, count: int) -> Batch:
    """Return the first examples of the validation split, as rows."""
    examples = material.splits.validation
    some = examples.tiling[:count]
    return examples.batch(some, seed=0, draws_B=some)


def _continued(material: Material, params: Params) -> list[str]:
    config = material.config
    prompt = _held_out(material, 1)["token_ids_BT"][0, :1]  # any one token would do; this one the tokenizer knows
    result = generate(
        config.model,
        params,
        [prompt.tolist()],
        max_new_tokens=config.train.sample_tokens,
        temperature=_TEMPERATURE,
        drawable_ids=material.tokenizer.vocab_size,
        key=random_key(config.train.seed),
        context_policy="crop",
        execution=config.execution,
    )
    title = f"sample (temperature {_TEMPERATURE}, {config.train.sample_tokens} tokens):"
    return [title, material.tokenizer.decode(result.ids[0])]


def _filled(material: Material, params: Params) -> list[str]:
    config, tokenizer = material.config, material.tokenizer
    batch, mask_id = _held_out(material, _TEXTS_FILLED), tokenizer.special_ids["mask"]
    has_mask_B = (batch["token_ids_BT"] == mask_id).any(axis=1)  # a chosen token may also stay, or become another
    if not has_mask_B.any():
        return ["the held-out texts looked at have no masks to fill in"]
    masked_BT, true_BT = batch["token_ids_BT"][has_mask_B], batch["target_ids_BT"][has_mask_B]
    rows = fill(
        config.model,
        params,
        masked_BT.tolist(),
        mask_id=mask_id,
        drawable_ids=tokenizer.vocab_size,
        key=random_key(config.train.seed),  # greedy: nothing is drawn
        execution=config.execution,
    )
    filled_BT, hidden_BT = np.array(rows), masked_BT == mask_id
    right = (filled_BT == true_BT)[hidden_BT].sum()
    parts = {"masked": masked_BT, "filled": filled_BT, "text": true_BT}
    return [
        f"masks of {len(rows)} held-out texts filled in: {right} of {hidden_BT.sum()} as in the text, for example:",
        *(f"  {name:<8}{tokenizer.decode(ids[0, : config.train.sample_tokens])!r}" for name, ids in parts.items()),
    ]


def _written(material: Material, params: Params) -> list[str]:
    tokenizer = material.tokenizer
    pairs = write_pairs(material.config, params, tokenizer, _held_out(material, _PAIRS_SCORED))
    right = sum(pair.written == pair.target for pair in pairs)
    words = [[repr(tokenizer.decode(ids)) for ids in pair] for pair in pairs[:_PAIRS_SHOWN]]
    return [
        f"exact match: {right} of {len(pairs)} held-out pairs written without an error, for example:",
        *(f"  {source} -> {got}" + ("" if got == true else f"  (should be {true})") for source, got, true in words),
    ]


def _a_word(material: Material) -> list[str]:
    """A word of the held-out text that leaves room in the context; without words, its first token."""
    ids_N, length = _held_out(material, 8)["token_ids_BT"].ravel(), material.config.model.context_length
    ordinary = ordinary_ids(material.tokenizer)  # the name of a special token would be read as text
    ids_N = ids_N[np.isin(ids_N, ordinary)] if np.isin(ids_N, ordinary).any() else ordinary
    words = material.tokenizer.decode(ids_N).split()
    fitting = (word for word in words if len(material.tokenizer.encode(word)) < length)
    return [f"--prompt={next(fitting, material.tokenizer.decode(ids_N[:1]))}"]


def _a_masked_text(material: Material) -> list[str]:
    tokenizer = material.tokenizer
    ids_T = _held_out(material, 1)["target_ids_BT"][0][:24].copy()
    ids_T[len(ids_T) // 2] = tokenizer.special_ids["mask"]
    return [f"--prompt={tokenizer.decode(ids_T)}"]


def _a_source(material: Material) -> list[str]:
    batch = _held_out(material, 1)
    return [f"--source={material.tokenizer.decode(batch['source_ids_BS'][0][batch['source_mask_BS'][0]])}"]


SHOWINGS = {
    "decoder": Showing(_continued, _a_word),
    "encoder": Showing(_filled, _a_masked_text),
    "encoder_decoder": Showing(_written, _a_source),
}


def sample_lines(material: Material, params: Params) -> list[str]:
    """Return what a trained model shows of itself, for the user to read."""
    on_one_device = jax.device_put(params, jax.devices()[0])  # once, not with each token
    return SHOWINGS[material.config.model.family].sample(material, on_one_device)


def first_try(material: Material) -> list[str]:
    """Return arguments of `jaxgpt generate`, beside the run, that this model knows what to do with."""
    return SHOWINGS[material.config.model.family].arguments(material)
