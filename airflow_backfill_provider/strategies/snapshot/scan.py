"""The scan of ``snapshot``: by file, in the order in which files were written, with one position for all vnodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.scan.columns import OwnColumns
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyField, KeyOrder, KeyRange, Position
from airflow_backfill_provider.core.scan.progress import (
    BackfillState,
    Completed,
    InProgress,
    NotStarted,
    position_of,
)
from airflow_backfill_provider.core.scan.scan import VnodeRange
from airflow_backfill_provider.strategies.shared_position import SharedPosition, shared

BEFORE_ROWS = -1
"""In place of a row's index: no row of the file."""

FILES_END: Position = (2**31 - 1, BEFORE_ROWS)
"""The position after all files. Changes are not applied yet, so no vnode is Completed."""


def before_file(number: int) -> Position:
    """Return the position before a file's first row, which is after all rows of the files before it."""
    return (number, BEFORE_ROWS)


def place_of(position: Position) -> tuple[int, int]:
    """
    Return the number of the file and the index of the row in a position.

    :raises StateError: if it has none.
    """
    match position:
        case (int(number), int(row)):
            return number, row
        case _:
            raise StateError(f"the position {position} is not a row of a file; rebuild the job")


@dataclass(frozen=True, slots=True)
class SnapshotScan(SharedPosition):
    """
    The scan by (file, row), with one position for all vnodes.

    :param vnode_count: the number of vnodes.
    :param own: the names of the package's own columns.
    """

    vnode_count: int
    own: OwnColumns

    @property
    def order(self) -> KeyOrder:
        """The number of the file, then the index of the row in it."""
        file, row = self.columns
        return KeyOrder((KeyField(name=file, type="integer"), KeyField(name=row, type="long")))

    @property
    def columns(self) -> tuple[str, str]:
        """The columns of the file's number and of the row's index."""
        return self.own.named("file"), self.own.named("row")

    def read(self, state: BackfillState) -> tuple[KeyRange, ...]:
        """Return everything up to the position; after the last file that is everything, whatever changed since."""
        match shared(state):
            case NotStarted():
                return ()
            case InProgress(position=position) if position != FILES_END:
                return (KeyRange(None, position),)
            case _:
                return (EVERYTHING,)

    def unread(self, state: BackfillState, vnodes: VnodeRange | None = None) -> tuple[KeyRange, ...]:
        """Return everything after the position; ``vnodes`` is ignored."""
        del vnodes
        progress = shared(state)
        return () if isinstance(progress, Completed) else (KeyRange(position_of(progress), None),)

    def advanced(
        self, state: BackfillState, *, epoch: int, ranges: Sequence[KeyRange], rows: Mapping[int, int]
    ) -> BackfillState:
        """Return the state with the position at the end of the last range; the ranges follow one another."""
        if not ranges:
            return state
        return self.moved(state, epoch=epoch, up_to=ranges[-1].up_to, rows=rows)
