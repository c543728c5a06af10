"""How Orbax keeps our checkpoints: on disk before they count, one at a time, the newest and the best of them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import orbax.checkpoint as ocp
from orbax.checkpoint.checkpoint_managers import (
    AnyPreservationPolicy,
    LatestN,
    PreservationContext,
    PreservationPolicy,
)
from orbax.checkpoint.path import atomicity

from jaxgpt.data.disk import sync

from .record import Losses, best_step


def manager_options(
    *, keep: int | None, writable: bool, losses: Callable[[], Losses]
) -> ocp.CheckpointManagerOptions:
    """Return what a `CheckpointManager` is told.

    Args:
        keep: How many checkpoints are kept, the newest; None keeps all. The best one is kept as well.
        writable: False for a reader.
        losses: Gives the validation losses of the checkpoints that have one.
    """
    return ocp.CheckpointManagerOptions(
        preservation_policy=AnyPreservationPolicy([LatestN(keep), _Best(losses)]),
        create=writable,
        read_only=not writable,
        save_interval_steps=1 if writable else 0,
        enable_async_checkpointing=False,  # it is called in a thread of ours, hashing included
        temporary_path_class=_SyncedPath,
    )


@dataclasses.dataclass
class _Best(PreservationPolicy):
    """Preserves the checkpoint of the lowest loss. Orbax's own policy would believe losses that nothing hashes."""

    losses: Callable[[], Losses]

    def should_preserve(
        self, checkpoints: Sequence[ocp.checkpoint_manager.CheckpointInfo], *, context: PreservationContext
    ) -> Sequence[bool]:
        best = best_step(self.losses())
        return [checkpoint.step == best for checkpoint in checkpoints]


class _SyncedPath(atomicity.AtomicRenameTemporaryPath):
    """A folder that is renamed when it is complete: its files are on disk before that, its new name after it.

    Otherwise a power cut could leave the name without the contents, and the checkpoints before it deleted already.
    """

    async def finalize(self) -> None:
        """Commit the folder."""
        _sync_tree(Path(self.get()))
        await super().finalize()
        _sync_tree(Path(self.get_final()))  # Orbax's last words on the checkpoint came after the first time
        sync(Path(self.get_final()).parent)


def _sync_tree(folder: Path) -> None:
    """Put every file and folder below `folder` on disk, itself last."""
    for root, _, names in os.walk(folder, topdown=False):
        for name in names:
            sync(Path(root) / name)
        sync(Path(root))
