"""The random batches from which a split's loss is estimated quickly: the same ones at each evaluation of a run."""

from __future__ import annotations

from collections.abc import Iterator

from jaxgpt.config import RequestError, RunConfig
from jaxgpt.data.batches import TrainingBatches
from jaxgpt.data.examples import Batch, Examples
from jaxgpt.data.objectives import Splits

# Turns the seed of a run into that of its quick estimates: with the run's own, the random examples of the training
# split would be the first ones trained on.
_ESTIMATE_BIT = 1 << 31


def evaluation_rows(config: RunConfig) -> int:
    """Return the rows of an evaluation batch: those of a micro-batch, whose memory is known to fit."""
    return config.train.batch_size // config.train.accumulate


def estimate_batches(config: RunConfig, examples: Examples) -> Iterator[Batch]:
    """Yield the `train.eval_batches` random batches of a split's quick estimate."""
    batches = TrainingBatches(examples, batch_size=evaluation_rows(config), seed=config.train.seed ^ _ESTIMATE_BIT)
    for i in range(config.train.eval_batches):
        yield batches.batch_at(i)


def check_estimates(config: RunConfig, splits: Splits) -> None:
    """Refuse packed documents of which the batches of a quick estimate hold nothing to predict.

    Raises:
        RequestError: as above.
    """
    if not config.data.pack_documents:
        return
    for examples, name in ((splits.validation, "validation"), (splits.train, "training")):
        if not any(batch["weights_BT"].any() for batch in estimate_batches(config, examples)):
            raise RequestError(
                f"data.pack_documents: each token of the {config.train.eval_batches} random batches that estimate "
                f"the loss of the {name} split ends a document, so they hold nothing to predict; raise "
                "train.eval_batches, or prepare the data without so many empty documents"
            )
