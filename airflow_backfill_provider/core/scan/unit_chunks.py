"""
Chooses chunks of whole units, where a unit is a group of rows that share a position.

A chunk of rows may end at any row. A chunk of units ends between units, so it holds all rows of each unit, and is only
ever appended. The rate limit still counts rows. A unit with more rows than that is read alone, as the only one of its
epoch. As with rows, the choice decides only how many rows an epoch reads, never which rows the view gets in the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from airflow_backfill_provider.core.scan.file_statistics import FileStatistics, KeyIndex, may_hold_some_of
from airflow_backfill_provider.core.scan.keys import KeyOrder, KeyRange, Position
from airflow_backfill_provider.core.scan.next_chunk import ChunkPart, choose_chunk, choose_parts, rows_within


class UnitIndex(KeyIndex, Protocol):
    """Also finds the unit before another one."""

    def last_before(self, files: Sequence[FileStatistics], within: KeyRange, position: Position) -> Position | None:
        """Return the greatest of the files' keys in a range that lies before a position; ``None`` if there is none."""
        ...


def choose_unit_parts(
    files: Sequence[FileStatistics],
    *,
    unread: Sequence[Sequence[KeyRange]],
    rate_limit: int | None,
    order: KeyOrder,
    keys: UnitIndex,
) -> tuple[ChunkPart, ...]:
    """
    Choose the parts of a chunk of whole units, one per parallel task run; they share one rate limit.

    Each part first gets the same share. What is left goes to the first parts whose next unit fits into it. If no unit
    fits at all, the epoch reads one unit and no other.

    :param unread: the unread ranges of each task run, in scan order.
    :returns: one chunk part per task run; without ranges if it gets nothing.
    """
    if rate_limit is None:
        return choose_parts(files, unread=unread, rate_limit=None, order=order, keys=keys)
    planner = _Planner(files, order, keys)
    chosen = {part: _NOTHING if ranges else replace(_NOTHING, completes=True) for part, ranges in enumerate(unread)}
    open_parts = [part for part, ranges in enumerate(unread) if ranges]
    share, remainder = divmod(rate_limit, max(len(open_parts), 1))
    for number, part in enumerate(open_parts):
        chosen[part] = planner.at_most(unread[part], share + (number < remainder))
    for part in open_parts:
        left = rate_limit - _rows(chosen)
        if left > 0 and not chosen[part].completes:
            chosen[part] = planner.at_most(unread[part], chosen[part].rows + left)
    if not _rows(chosen) and (still_open := [part for part in open_parts if not chosen[part].completes]):
        chosen[still_open[0]] = planner.one_unit(unread[still_open[0]], rate_limit)
    return tuple(chosen[part] for part in range(len(unread)))


_NOTHING = ChunkPart((), 0, False, 0, 0, 0)


def _rows(chosen: Mapping[int, ChunkPart]) -> int:
    return sum(chunk.rows for chunk in chosen.values())


@dataclass(frozen=True, slots=True)
class _Planner:
    """
    Chooses the chunks of single parts.

    :param files: the snapshot's data files.
    :param order: the scan's order: by the columns of a unit.
    :param keys: exact positions of files.
    """

    files: Sequence[FileStatistics]
    order: KeyOrder
    keys: UnitIndex

    def at_most(self, unread: Sequence[KeyRange], rows: int) -> ChunkPart:
        """Choose as many whole units as fit, which may be none."""
        if not rows:
            return _NOTHING
        chunk = self._counted(self._chosen(unread, rows))
        if chunk.rows <= rows:
            return chunk
        # The chunk ends at the unit of its last row that fits, and the other rows of this unit do not.
        *whole, cut = chunk.ranges
        near = [file for file in self.files if may_hold_some_of(file, cut, self.order)]
        end = None if cut.up_to is None else self.keys.last_before(near, cut, cut.up_to)
        ranges = (*whole, KeyRange(cut.after, end)) if end is not None else tuple(whole)
        return self._counted(replace(chunk, ranges=ranges, completes=False))

    def one_unit(self, unread: Sequence[KeyRange], rate_limit: int) -> ChunkPart:
        """Choose the next unit, which has more rows than fit."""
        chunk = self._counted(self._chosen(unread, 1))
        warning = (
            f"one group has {chunk.rows:,} rows, more than the rate limit of {rate_limit:,}; it is read whole, by an "
            "epoch of its own. Raise the rate limit, or use strategy snapshot"
        )
        return replace(chunk, warnings=(warning,))

    def _chosen(self, unread: Sequence[KeyRange], rows: int) -> ChunkPart:
        # A warning about the layout would not be true: the files are laid out by units.
        chunk = choose_chunk(self.files, unread=unread, rate_limit=rows, order=self.order, keys=self.keys)
        return replace(chunk, warnings=())

    def _counted(self, chunk: ChunkPart) -> ChunkPart:
        """Return a chunk with the exact number of its rows."""
        return replace(chunk, rows=rows_within(self.files, chunk.ranges, self.order, self.keys))
