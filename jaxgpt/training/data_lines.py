"""What a run says of its data: what it reads, and of several files how much of each."""

from __future__ import annotations

from jaxgpt.data.mixture import Mixture
from jaxgpt.data.sources import source_words

from .material import Material


def data_lines(material: Material) -> list[str]:
    """Return the lines that say what a run trains and validates on."""
    sources, splits, vocab_size = material.sources, material.splits, material.config.model.vocab_size
    cut = sources.validation is None
    sizes = (
        f"  training on {'the first ' if cut else ''}{splits.train_size:,} {splits.unit}, validating on "
        f"{'the last ' if cut else ''}{splits.validation_size:,}: {splits.validation.describe()}"
    )
    own = [] if cut else [f"validation: {source_words(sources.validation)}"]
    if not isinstance(splits.train, Mixture):
        return [f"data: {source_words(sources.training[0])}, {vocab_size:,} token ids", *own, sizes]
    train = material.config.train
    files = [source_words(source) for source in sources.training]
    shares = share_words(splits.train, train.steps * train.batch_size)
    return [
        f"data: {len(files)} files by weight, {vocab_size:,} token ids; in all {train.steps:,} steps",
        *(f"  {words} of {file}" for words, file in zip(shares, files, strict=True)),
        *own,
        sizes.replace("the first", "the first parts,").replace("the last", "the last parts,"),
    ]


def share_words(mixture: Mixture, examples: int) -> list[str]:
    """Return, file by file, the share of so many examples that are its own, and how often each of them comes.

    Example:
        >>> from jaxgpt.data.examples import Windows
        >>> parts = [Windows(np.arange(14, dtype=np.int32), context_length=4) for _ in range(2)]
        >>> share_words(Mixture(parts, weights=[3, 1], names=["a", "b"]), 40)
        ['75.00% (30 examples, each 3 times)', '25.00% (10 examples, each 1 times)']
    """
    counts = mixture.counts_before(examples)
    return [
        f"{count / max(examples, 1):.2%} ({count:,} examples, each {count / part.count:.3g} times)"
        for count, part in zip(counts.tolist(), mixture.parts, strict=True)
    ]
