"""The scan of ``no_shuffle``: by key, with one position for all vnodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyOrder, KeyRange
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress, NotStarted
from airflow_backfill_provider.core.scan.scan import VnodeRange
from airflow_backfill_provider.strategies.shared_position import SharedPosition, shared


@dataclass(frozen=True, slots=True)
class NoShuffleScan(SharedPosition):
    """
    The scan by key, with one position for all vnodes; each vnode records the same progress and the total row count.

    :param order: the key's order.
    :param vnode_count: the number of vnodes.
    :param keys: the job's range of keys; by default all.
    """

    order: KeyOrder
    vnode_count: int
    keys: KeyRange = EVERYTHING

    def read(self, state: BackfillState) -> tuple[KeyRange, ...]:
        """Return everything up to the position."""
        match shared(state):
            case NotStarted():
                return ()
            case InProgress(position=position):
                return (KeyRange(None, position),)
            case _:
                return (KeyRange(None, None),)

    def unread(self, state: BackfillState, vnodes: VnodeRange | None = None) -> tuple[KeyRange, ...]:
        """Return everything after the position; ``vnodes`` is ignored."""
        del vnodes
        progress = shared(state)
        if isinstance(progress, Completed):
            return ()
        after = self.keys.after if isinstance(progress, NotStarted) else progress.position
        return (KeyRange(after, self.keys.up_to),)

    def advanced(
        self, state: BackfillState, *, epoch: int, ranges: Sequence[KeyRange], rows: Mapping[int, int]
    ) -> BackfillState:
        """Return the state with the position at the end of the only range."""
        if not ranges:
            return state
        (chunk,) = ranges
        up_to = None if chunk.up_to == self.keys.up_to else chunk.up_to
        return self.moved(state, epoch=epoch, up_to=up_to, rows=rows)
