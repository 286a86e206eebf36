"""The bookkeeping of scans with one position for all vnodes, which each vnode records with the total row count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.scan.keys import Position
from airflow_backfill_provider.core.scan.progress import (
    BackfillState,
    Completed,
    InProgress,
    NotStarted,
    VnodeProgress,
    position_of,
)


class SharedPosition:
    """The part of a scan that does not depend on what a position is."""

    vnode_count: int

    def initial(self, epoch: int) -> BackfillState:
        """Return a state with all vnodes not started."""
        return BackfillState(epoch=epoch, vnodes=(NotStarted(),) * self.vnode_count)

    def moved(
        self, state: BackfillState, *, epoch: int, up_to: Position | None, rows: Mapping[int, int]
    ) -> BackfillState:
        """
        Return the state after an epoch that read up to a position.

        :param up_to: the position; ``None`` if nothing is left.
        :param rows: snapshot rows that the epoch read, by vnode.
        """
        before = shared(state)
        count = before.row_count + sum(rows.values())
        progress = Completed(position_of(before), count) if up_to is None else InProgress(up_to, count)
        return BackfillState(epoch=epoch, vnodes=(progress,) * len(state.vnodes))

    def rows_in(self, vnodes: Sequence[VnodeProgress]) -> int:
        """Return the total count, which every vnode records."""
        return vnodes[0].row_count

    def rows_of_one(self, rows: int) -> float:
        """Return all rows, because each vnode records the total."""
        return rows


def shared(state: BackfillState) -> VnodeProgress:
    """
    Return the progress that all vnodes share.

    :raises StateError: if vnodes differ. (The streaming executor asserts the same on recovery.)
    """
    first = state.vnodes[0]
    if any(progress != first for progress in state.vnodes):
        raise StateError(
            f"the state table has different positions for vnodes as of epoch {state.epoch}, but the strategy keeps one "
            "position for all; a foreign writer changed the table: rebuild the job"
        )
    return first
