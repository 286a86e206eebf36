"""What one task run carries: the epochs that it pinned, in all its tries, and whether it may pin another."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.epoch_record import EpochCommit


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRunEpochs:
    """
    The epochs that a task run pinned, of the incarnation that it pinned the last one of.

    :param barriers: ascending.
    :param commits: of those that are committed, ascending.
    """

    barriers: tuple[Barrier, ...] = ()
    commits: tuple[EpochCommit, ...] = ()

    @property
    def due(self) -> Barrier | None:
        """The barrier that is pinned and not committed; only the newest can be."""
        return self.barriers[-1] if len(self.commits) < len(self.barriers) else None

    def may_pin_another(self, most: int) -> bool:
        """
        Tell whether the task run has room for one more epoch.

        None once every vnode is Completed: what is new from then on is a later run's.

        :param most: how many it is to carry at most.
        """
        if not self.barriers:
            return True
        return self.due is None and len(self.barriers) < most and not self.commits[-1].completed
