"""Saves of a training state, of which one may fail: the state after it is worth more than the one that was lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxgpt.config import WorkError, warn
from jaxgpt.runs.checkpoints import CheckpointStore


class Saver:
    """Hands states to a store. A save that fails is a warning, for the next may succeed; two in a row end the run.

    Args:
        store: Where they are saved.
        step: The step that the run goes on from; it counts as saved where the store has any.
    """

    def __init__(self, store: CheckpointStore, step: int) -> None:
        self._store = store
        self._saved: int | None = step if store.steps() else None
        self._is_saving = self._did_one_fail = False

    def save(self, step: int, items: Mapping[str, Any], loss: float | None) -> None:
        """Start writing a checkpoint, unless this step is saved already; the arguments are those of the store's.

        Raises:
            WorkError: the two saves before this one failed, or the store's folder is gone.
        """
        if step == self._saved:
            return
        self._settle()
        self._store.save(step, items, loss=loss)
        self._saved, self._is_saving = step, True

    def save_for_good(self, step: int, items: Mapping[str, Any], loss: float | None) -> None:
        """Return once this step's checkpoint is on disk; where writing it fails, it is written once more.

        Raises:
            WorkError: that, and the save before it, failed.
        """
        for _ in range(2):
            self.save(step, items, loss)
            self._settle()

    def _settle(self) -> None:
        """Wait for the save in flight; warn where it failed, or raise where the one before it had failed as well."""
        if not self._is_saving:
            return
        self._is_saving = False
        try:
            self._store.wait()
        except WorkError as failure:
            if self._did_one_fail:
                raise WorkError(f"{failure}, then continue the run") from None
            warn(f"{failure}; the present state is saved instead")
            self._saved, self._did_one_fail = None, True
        else:
            self._did_one_fail = False
