"""Settings that may break a run without being certain to: said before the first step, not refused."""

from __future__ import annotations

from .run import RunConfig


def doubts(config: RunConfig) -> list[str]:
    """Return one sentence for each combination of settings that a run may not survive.

    Example:
        >>> from jaxgpt.config import OptimizerConfig
        >>> doubts(RunConfig()), len(doubts(RunConfig(optimizer=OptimizerConfig(beta1=0.99, beta2=0.9))))
        ([], 1)
    """
    optimizer = config.optimizer
    found = []
    decay = optimizer.learning_rate * optimizer.weight_decay
    if decay >= 2:
        found.append(
            f"optimizer.learning_rate x optimizer.weight_decay is {decay:g}: from 2 on each step's decay alone turns "
            "the weights' signs and makes them larger, as long as the rate is near its peak"
        )
    if optimizer.beta1**2 > optimizer.beta2:
        found.append(
            f"optimizer.beta1 {optimizer.beta1:g} is above the square root of optimizer.beta2 {optimizer.beta2:g}: "
            "after a large gradient Adam's second moment fades before the first, and its updates grow meanwhile; "
            "raise beta2 or lower beta1"
        )
    return found
