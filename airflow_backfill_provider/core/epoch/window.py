"""The part of an upstream's history that one epoch covers."""

from __future__ import annotations

import datetime as dt

from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.job.sql import RELATION
from airflow_backfill_provider.core.scan.offset import BEGINNING, HistoryPoint, Offset


class UpstreamWindow(Frozen):
    """
    The part of an upstream's history that one epoch covers, half-open: ``(from_offset, to_offset]``.

    :param relation: the upstream's name in the query.
    :param table_id: the upstream's id; another table at the same path is refused.
    :param from_offset: the end of the previous epoch's window.
    :param to_offset: the last offset of the changes; the chunk is read at it too, unless changes wait.
    :param watermark: commit timestamp of ``to_offset``; never earlier than the previous epoch's.
    :param row_count: rows at the chunk's offset; an estimate, used for progress only.
    :param mark: the source's mark of ``to_offset``, by which it checks that the history is still the same.
    """

    relation: str = RELATION
    table_id: str
    from_offset: Offset
    to_offset: Offset
    watermark: dt.datetime
    row_count: int
    mark: str | None = None

    @property
    def is_wide(self) -> bool:
        """Whether the window has any offset."""
        return self.to_offset > self.from_offset

    @property
    def end(self) -> HistoryPoint:
        """The point of the upstream's history that the job reaches with the epoch."""
        return HistoryPoint(offset=self.to_offset, mark=self.mark)

    @property
    def reached_point(self) -> HistoryPoint | None:
        """The end of the window, or ``None`` if the job's first epoch was given up, so that no offset is reached."""
        return None if self.to_offset == BEGINNING else self.end
