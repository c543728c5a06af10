"""What a run says of its data: what it reads, and of several files how much of each."""

from __future__ import annotations

from jaxgpt.data.mixture import Mixture
from jaxgpt.data.sources import source_words

from .material import Material


def data_lines(material: Material) -> list[str]:
    """Return the lines that say what a run trains and validates on."""
    sources, splits, ids = material.sources, material.splits, f"{material.config.model.vocab_size:,} token ids"
    own = [] if sources.validation is None else [f"validation: {source_words(sources.validation)}"]
    if not isinstance(splits.train, Mixture):
        return [f"data: {source_words(sources.training[0])}, {ids}", *own, *_sizes(material)]
    train = material.config.train
    files = [source_words(source) for source in sources.training]
    shares = share_words(splits.train, train.steps * train.batch_size)
    return [
        f"data: {len(files)} files by weight, {ids}; of the examples of all {train.steps:,} steps",
        *(f"  {words} are from {file}" for words, file in zip(shares, files, strict=True)),
        *own,
        *_sizes(material),
    ]


def _sizes(material: Material) -> list[str]:
    splits = material.splits
    parts = " parts, in all" if isinstance(splits.train, Mixture) else ""
    first, last = (f"the first{parts} ", f"the last{parts} ") if material.sources.validation is None else ("", "")
    return [
        f"  training on {first}{splits.train_size:,} {splits.unit}, validating on {last}"
        f"{splits.validation_size:,}: {splits.validation.describe()}",
        *_long_evaluations(material),
    ]


def _long_evaluations(material: Material) -> list[str]:
    """Return a line where an evaluation, which reads all of the validation split, reads more than is trained on."""
    train, splits = material.config.train, material.splits
    each = 1 if splits.unit == "pairs" else material.config.model.context_length
    between = train.eval_every * train.batch_size * each
    if splits.validation_size <= between:
        return []
    return [
        f"  note: an evaluation reads all {splits.validation_size:,} {splits.unit} of it, more than the {between:,} "
        "that are trained on between two; raise train.eval_every, or keep less for validation"
    ]


def realised_shares(material: Material, steps: int) -> list[str]:
    """Return what a run has read of each of several files in its first `steps` steps; nothing for one file."""
    mixture = material.splits.train
    if not isinstance(mixture, Mixture):
        return []
    words = share_words(mixture, steps * material.config.train.batch_size)
    return [f"  {share} of the examples were from {name}" for share, name in zip(words, mixture.names, strict=True)]


def share_words(mixture: Mixture, examples: int) -> list[str]:
    """Return, file by file, the share of so many examples that are its own, and how often each of them comes.

    Example:
        >>> from jaxgpt.data.examples import Windows
        >>> parts = [Windows(np.arange(14, dtype=np.int32), context_length=4) for _ in range(2)]
        >>> share_words(Mixture(parts, weights=[3, 1], names=["a", "b"]), 40)
        ['75.00% (30, each 3 times)', '25.00% (10, each 1 times)']
    """
    counts = mixture.counts_before(examples)
    return [
        f"{count / max(examples, 1):.2%} ({count:,}, each {count / part.count:.3g} times)"
        for count, part in zip(counts.tolist(), mixture.parts, strict=True)
    ]
