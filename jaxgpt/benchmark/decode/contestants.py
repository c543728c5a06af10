"""Who is compared: each a name, and how it makes a program of a workload."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from jaxgpt.config import RequestError
from jaxgpt.model.serving import Prepared

from .peer import opened_by_transformers, transformers_program
from .programs import Program, cached, uncached
from .results import CACHED, STORED, TRANSFORMERS, UNCACHED
from .workload import Model, Workload


@dataclasses.dataclass(frozen=True)
class Contestant:
    """One way to generate.

    Attributes:
        name: As the table calls it.
        make: workload -> what is timed; None where it cannot take part.
        refusal: Why not.
    """

    name: str
    make: Callable[[Workload], Program] | None
    refusal: str | None = None


def contestants(model: Model, prepared: Prepared, *, peers: bool) -> list[Contestant]:
    """Return who takes part, in the order of the report.

    Args:
        model: What generates.
        prepared: Its parameters, laid out.
        peers: Whether transformers takes part.
    """
    stored = Prepared(model.config, model.params)
    rows = [
        Contestant(CACHED, functools.partial(cached, prepared)),
        Contestant(STORED, functools.partial(cached, stored)),
        Contestant(UNCACHED, functools.partial(uncached, prepared)),
    ]
    return [*rows, _transformers(model)] if peers else rows


def _transformers(model: Model) -> Contestant:
    try:
        opened = opened_by_transformers(model)
    except RequestError as error:
        return Contestant(TRANSFORMERS, None, refusal=str(error))
    return Contestant(TRANSFORMERS, functools.partial(transformers_program, opened))
