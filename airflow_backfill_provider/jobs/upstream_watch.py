"""Polls the upstream of a job that names it in a catalog, whose location is known only once the job is created."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable

from airflow_backfill_provider.core.cached_answer import CachedAnswer
from airflow_backfill_provider.core.scan.offset import BEGINNING, Offset
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.lake.log.version_watch import VersionsWatch
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.watch import SourceWatch


class JobUpstreamWatch(SourceWatch):
    """
    Polls a job's upstream where the job's settings say that it is.

    A rebuild may find the table of the same name at another location, so the upstream is opened again when the job's
    tables have changed.

    :param backfill: the job.
    :param other: the name of the upstream, if it is not the one that leads.
    """

    def __init__(self, backfill: Backfill, other: str | None = None) -> None:
        self._backfill = backfill
        self._other = other
        self._tables = VersionsWatch(backfill.store.watched_tables, backfill.store.storage_options)
        self._opened: CachedAnswer[SourceWatch | None] = CachedAnswer()
        self._watch: SourceWatch | None = None

    def look(self) -> tuple[Offset | None, Hashable]:
        """Return the newest offset; the beginning of the history before the job is created."""
        self._watch = self._opened.get(tuple(self._tables.latest()), self._open)
        return (BEGINNING, None) if self._watch is None else self._watch.look()

    def seen_at(self, offset: Offset) -> dt.datetime:
        """Return when the newest offset was committed; before the job is created, the present."""
        return dt.datetime.now(dt.UTC) if self._watch is None else self._watch.seen_at(offset)

    def _open(self) -> SourceWatch | None:
        return _source(self._backfill, self._other).watch() if self._backfill.store.created() else None


def watch_upstream(backfill: Backfill, other: str | None = None) -> SourceWatch:
    """
    Return a watch that polls a job's upstream for new offsets.

    :param other: the name of the upstream, if it is not the one that leads.
    """
    definition = backfill.job.upstream if other is None else backfill.job.others[other]
    return _source(backfill, other).watch() if definition.is_placed else JobUpstreamWatch(backfill, other)


def _source(backfill: Backfill, other: str | None) -> Source:
    return backfill.upstream if other is None else backfill.others[other]
