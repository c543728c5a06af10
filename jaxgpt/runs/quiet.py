"""Keeping Orbax's log lines off the user's terminal; what matters in them, our own messages say."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

import orbax.checkpoint as ocp

_ORBAX_FOLDER = str(Path(ocp.__file__).parent)


class _NotFromOrbax(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not record.pathname.startswith(_ORBAX_FOLDER)


@contextlib.contextmanager
def quiet_orbax() -> Iterator[None]:
    """Drop the log records that Orbax's own files emit, from every thread, until the block ends.

    Orbax writes through absl's one logger, which other libraries share, so the filter goes by the file that
    emitted the record and touches neither levels nor handlers.
    """
    logger = logging.getLogger("absl")
    mine = _NotFromOrbax()  # one per block: nested blocks remove their own and leave the other's
    logger.addFilter(mine)
    try:
        yield
    finally:
        logger.removeFilter(mine)
