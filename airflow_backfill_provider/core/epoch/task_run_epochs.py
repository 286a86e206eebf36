"""The epochs of one task run: those that it pinned in all its tries, and whether it may pin another."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRunEpochs:
    """
    The epochs that a task run pinned, in the incarnation of its last one.

    :param barriers: their barriers, ascending.
    :param commits: the commits of those that are committed, ascending.
    """

    barriers: tuple[Barrier, ...] = ()
    commits: tuple[EpochCommit, ...] = ()

    @property
    def due(self) -> Barrier | None:
        """The barrier that is pinned and not committed, if any; only the newest can be."""
        return self.barriers[-1] if len(self.commits) < len(self.barriers) else None

    def may_pin_another(self, most: int) -> bool:
        """
        Return whether the task run may pin one more epoch.

        It may not once every vnode is Completed: later changes belong to a later task run.

        :param most: the most epochs that it may pin.
        """
        if not self.barriers:
            return True
        return self.due is None and len(self.barriers) < most and not self.commits[-1].completed
