"""
The barrier logs of views that a job reads: which epochs a view has, and which offsets of its roots each of them has.

An epoch without rows is an entry, too: it says that nothing between two offsets concerned the view. If a view reads
other views, the frontier of its epochs follows from their logs. A window pins a version of such a view, and several of
its epochs may have left that version. All of them say what its rows are as of, so the newest that fits counts.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.frontiers import Looked, Side, TableSide, ViewSide, merged, newest_agreeing
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.epoch.window import UpstreamWindow
from airflow_backfill_provider.core.errors import UpstreamError, UpstreamNotFoundError, UpstreamReplacedError
from airflow_backfill_provider.core.job.upstream_view import UpstreamView
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.jobs.chain import reader_of
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.description import other_table
from airflow_backfill_provider.state.backfill_reader import BackfillReader

EPOCHS_AT_ONCE = 50
"""How many epochs of a barrier log are read at once, from its end."""

MOST_EPOCHS = 5_000
"""How many epochs of a barrier log are read in all. One each five minutes are those of two weeks."""


def whole_epochs(reader: BackfillReader, view: UpstreamView) -> Iterator[tuple[Barrier, EpochCommit, int]]:
    """
    Yield the committed epochs of a finished view with the versions that they left, newest first.

    :raises UpstreamError: if somebody still asks after :data:`MOST_EPOCHS`.
    """
    last = reader.last_epoch()
    before = last + 1
    while before > 1:
        if last - before >= MOST_EPOCHS:
            raise UpstreamError(
                f"the newest {MOST_EPOCHS} epochs of job {view.job} are all later than what is looked for; its log is "
                "not read further: rebuild the job that reads its view, or ask for a later instant"
            )
        since = max(before - EPOCHS_AT_ONCE, 1)
        barriers, commits = reader.log(since_epoch=since, before_epoch=before)
        pinned = {barrier.epoch: barrier for barrier in barriers}
        for commit in reversed(commits):
            whole = commit.is_finished and not commit.given_up and commit.incarnation == view.incarnation
            if whole and commit.view_version is not None:
                yield pinned[commit.epoch], commit, commit.view_version
        before = since


@dataclass(frozen=True, slots=True)
class WholeEpoch:
    """
    An epoch of a finished view.

    :param barrier: its barrier.
    :param offset: the view's offset that it left.
    """

    barrier: Barrier
    offset: Offset


class ViewLogs:
    """
    The barrier logs of views, each read once, and only as far as somebody asks.

    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, storage_options: Mapping[str, str] | None = None) -> None:
        self.storage_options = dict(storage_options or {})
        self._known: dict[str, ViewLog | None] = {}

    def of(self, source: Source) -> ViewLog | None:
        """
        Return the log of the job whose finished view an upstream is; ``None`` if it is no such view.

        A view whose job is not found, or whose versions are not the upstream's offsets, counts as a table.
        """
        if source.location not in self._known:
            self._known[source.location] = self._opened(source)
        return self._known[source.location]

    def _opened(self, source: Source) -> ViewLog | None:
        try:
            view = source.view_at()
        except UpstreamNotFoundError:
            # The table at the end of a chain may be gone; the windows still say which versions of it a view has.
            return None
        if view is None or not view.is_finished or source.offset_of_version(0) is None:
            return None
        reader = reader_of(view, self.storage_options)
        return None if reader is None else ViewLog(self, source, view, reader)


class ViewLog:
    """
    The epochs of one view.

    :param logs: all logs that are read.
    :param source: the view as an upstream.
    :param view: the view.
    :param reader: the control tables of its job.
    """

    def __init__(self, logs: ViewLogs, source: Source, view: UpstreamView, reader: BackfillReader) -> None:
        self.source = source
        self.view = view
        self._logs = logs
        self._reader = reader
        self._unread = whole_epochs(reader, view)
        self._read: list[WholeEpoch] = []
        self._known: dict[tuple[int, dt.datetime], Looked | None] = {}

    @cached_property
    def settings(self) -> JobSettings:
        """The settings of the view's job."""
        return self._reader.settings()

    @cached_property
    def upstreams(self) -> Mapping[str, Source]:
        """The upstreams of the view's job, by their names in its query."""
        definitions = self.settings.definition.all_upstreams
        return {name: open_source(definition, self._logs.storage_options) for name, definition in definitions.items()}

    @cached_property
    def table_id(self) -> str:
        """The id of the view's table, which a rebuild changes."""
        return self.source.at().table_id

    def epochs(self) -> Iterator[WholeEpoch]:
        """Yield the epochs, newest first; several may ask in turns."""
        number = 0
        while True:
            if number == len(self._read):
                found = next(self._unread, None)
                if found is None:
                    return
                barrier, _, version = found
                self._read.append(WholeEpoch(barrier, self.source.offset_of_version(version) or Offset(version)))
            yield self._read[number]
            number += 1

    def looked(self, instant: dt.datetime) -> Iterator[Looked]:
        """Yield the epochs that looked no further than an instant, newest first."""
        for epoch in self.epochs():
            if (looked := self._looked_at(epoch, instant)) is not None:
                yield looked

    def offset_left(self, reached: Offset) -> Offset | None:
        """Return the offset that the newest epoch at or before an offset left; ``None`` if there is none."""
        return next((epoch.offset for epoch in self.epochs() if epoch.offset <= reached), None)

    def last_with_rows_of(self, offset: Offset) -> Offset:
        """Return the last offset with the same rows; the commit that finishes a view, for example, changes none."""
        table, version = DeltaLog(self.view.location, self._logs.storage_options), offset.number
        while version is not None and (following := table.commit(version + 1)) and not following.changes_data:
            version += 1
        return offset if version is None else Offset(version)

    def with_rows_of(self, reached: Offset, instant: dt.datetime) -> Iterator[Looked]:
        """
        Yield the epochs whose rows the view has at an offset, of those that looked no further than an instant.

        None, if the epoch that wrote this offset is not recorded yet.
        """
        left = self.offset_left(reached)
        if left is None or (left < reached and self.source.has_changes(left, reached)):
            return
        for epoch in self.epochs():
            if epoch.offset < left:
                return
            if epoch.offset == left and (looked := self._looked_at(epoch, instant)) is not None:
                yield looked

    @cached_property
    def roots(self) -> Mapping[str, Source]:
        """The tables that the view is made of in the end, by their ids."""
        found: dict[str, Source] = {}
        seen: set[str] = set()
        logs = [self]
        while logs:
            log = logs.pop()
            seen.add(log.view.location)
            for name, source in log.upstreams.items():
                below = self._logs.of(source)
                if below is None:
                    found[log.settings.others.get(name, log.settings.upstream).table_id] = source
                elif below.view.location not in seen:
                    logs.append(below)
        return found

    def _looked_at(self, epoch: WholeEpoch, instant: dt.datetime) -> Looked | None:
        """Return what an epoch has; ``None`` if it looked further than an instant."""
        asked = epoch.barrier.epoch, instant
        if asked not in self._known:
            # In a circle of views, which copied properties can make, nothing says what an epoch has.
            self._known[asked] = None
            self._known[asked] = self._looked(epoch, instant)
        return self._known[asked]

    def _looked(self, epoch: WholeEpoch, instant: dt.datetime) -> Looked | None:
        sides: dict[str, Side] = {}
        for name, source in self.upstreams.items():
            window, log = epoch.barrier.window(name), self._logs.of(source)
            if log is None and window.watermark > instant:
                return None
            sides[name] = _pinned(window) if log is None else self._of_view(log, window, instant)
        chosen = newest_agreeing(sides)
        if chosen is None:
            return None
        looked = max(one.instant for one in chosen.values())
        return Looked(offset=epoch.offset, frontier=merged(chosen), instant=looked)

    def _of_view(self, log: ViewLog, window: UpstreamWindow, instant: dt.datetime) -> Side:
        if other := other_table(log.view.location, log.table_id, window.table_id, log.view):
            raise UpstreamReplacedError(
                f"{other}; job {self.view.job} still reads the former one: rebuild {self.view.job}, and then the jobs "
                "that read its view"
            )
        return ViewSide(log.with_rows_of(window.to_offset, instant))


def _pinned(window: UpstreamWindow) -> TableSide:
    """Return the one offset of a table that an epoch has."""
    return TableSide(
        root=window.table_id,
        newest=window.to_offset,
        since=window.to_offset,
        committed_at=lambda _: window.watermark,
    )
