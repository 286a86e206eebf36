"""What an upstream has that a job has not read, and how long it is kept."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace

from airflow_backfill_provider.core.job.upstream_view import UpstreamView
from airflow_backfill_provider.core.scan.offset import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFeed:
    """
    The upstream's changes that no committed epoch has read.

    :param latest: the upstream's newest offset.
    :param kept_for: how long the upstream keeps its changes; ``None`` if unknown.
    :param kept_by: the names of the upstream's settings that set this time, for messages; empty if it has none.
    :param unreadable: the Delta table's properties that set this time but cannot be parsed; empty if there are none.
    :param unread_since: when the oldest unread offset was committed; ``None`` if unknown, or if all are read.
    :param needed: the oldest unread offset with changed rows, so that an epoch must read its changes.
    :param needed_since: when this offset was committed, or landed where that counts; ``None`` if its commit is gone.
    :param kept_bytes: the bytes of log that the upstream keeps for the job alone; ``None`` if it keeps none for it.
    :param bytes_left: the bytes of log after which the upstream gives these up; ``None`` if it never does.
    :param replaced: why the upstream is not the one that the job has read; empty if it is the same. If it was replaced,
        unread changes are unknown.
    :param view: the view and its job if the upstream is another job's materialized view.
    :param unanswered: why the upstream did not answer; then only what the lake has is known. Empty if it did.
    :param landed_at: if it did not: when changes were landed last; ``None`` if they are not landed.
    """

    latest: Offset
    kept_for: dt.timedelta | None
    kept_by: str = ""
    unreadable: str = ""
    unread_since: dt.datetime | None = None
    needed: Offset | None = None
    needed_since: dt.datetime | None = None
    kept_bytes: int | None = None
    bytes_left: int | None = None
    replaced: str = ""
    view: UpstreamView | None = None
    unanswered: str = ""
    landed_at: dt.datetime | None = None

    def needing(self, offset: Offset, since: dt.datetime) -> ChangeFeed:
        """Return the same, if an offset is needed, too, whose files or changes are kept since a time."""
        if self.needed is not None and self.needed_since is not None and self.needed_since <= since:
            return self
        return replace(self, needed=offset, needed_since=since)

    def without_changes(self) -> ChangeFeed:
        """Return the same for a job that does not read changes."""
        return replace(self, needed=None, needed_since=None)

    def headroom(self, now: dt.datetime) -> dt.timedelta | None:
        """
        Return how long the needed changes are still kept; zero if they may be gone.

        :returns: ``None`` if none are needed, or if it is unknown how long they are kept.
        """
        if self.needed is None:
            return None
        if self.needed_since is None:
            return dt.timedelta(0)
        if self.kept_for is None:
            return None
        return max(self.kept_for - (now - self.needed_since), dt.timedelta(0))
