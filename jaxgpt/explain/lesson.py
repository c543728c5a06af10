"""The whole lesson: the example, the exercises and the bridge, with a verdict on every printed number."""

from __future__ import annotations

from typing import Literal, get_args

import jax

from jaxgpt.config import RequestError, nearest

from .bridge import bridge_steps
from .example import example_steps, trace_lesson
from .exercises import block_exercises
from .lesson_weights import lesson_parameters
from .steps import Lesson, Part, Step
from .training_exercises import training_exercises

PartName = Literal["example", "exercises", "bridge"]
_TITLES: dict[PartName, str] = {
    "example": "Two prompts through the model",
    "exercises": "Exercises",
    "bridge": "From one head to the model",
}


def run_lesson(*parts: PartName) -> Lesson:
    """Compute the lesson with the modules that train, in float32 with full-precision products.

    Args:
        *parts: Which parts, in their order; none means all of them.

    Raises:
        RequestError: an unknown part.

    Example:
        >>> lesson = run_lesson("bridge")
        >>> lesson.differences()
        ()
    """
    for name in parts:
        if name not in _TITLES:
            raise RequestError(f"lesson has no part '{name}'{nearest(name, _TITLES)} (parts: {', '.join(_TITLES)})")
    with jax.default_matmul_precision("highest"):
        return Lesson(tuple(Part(name, _TITLES[name], _compute(name)) for name in parts or get_args(PartName)))


def _compute(name: PartName) -> tuple[Step, ...]:
    params = lesson_parameters()
    if name == "exercises":
        return block_exercises(params) + training_exercises(params)
    trace = trace_lesson(params)
    return example_steps(params, trace) if name == "example" else bridge_steps(params, trace)
