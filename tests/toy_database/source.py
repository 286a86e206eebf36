"""A table in a SQLite file as an upstream, without a JVM."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Mapping, Sequence

from airflow_backfill_provider.core.epoch.settings import JobSettings, ResolvedUpstream
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics, KeyIndex
from airflow_backfill_provider.core.scan.keys import KeyOrder, Position
from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
from airflow_backfill_provider.core.status.change_feed import ChangeFeed
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.description import UpstreamDescription
from airflow_backfill_provider.sources.present_rows import PresentRows, ReadingStart
from airflow_backfill_provider.sources.shared.change_log.table import ChangeLog
from airflow_backfill_provider.sources.shared.no_keys import NoKeys
from airflow_backfill_provider.sources.watch import SourceWatch
from tests.toy_database.definition import ToyUpstream
from tests.toy_database.server import TYPES, ToyServer


class ToySource(Source, SourceWatch, PresentRows):
    """One table. An offset is a position in the database's log."""

    def __init__(self, upstream: ToyUpstream, storage_options: Mapping[str, str] | None = None) -> None:
        self.upstream = upstream
        self.server = ToyServer(upstream.file)
        self.log = ChangeLog(upstream.change_log, storage_options)

    @property
    def location(self) -> str:
        return self.upstream.location

    @property
    def key(self) -> list[str]:
        return [column.column for column in self.upstream.key]

    # ------------------------------------------------------------------------------------------------- history

    def begin(self, job: str) -> HistoryPoint:
        position = self.server.position()
        self.log.create(self.location, position, at=dt.datetime.now(dt.UTC))
        return HistoryPoint(offset=Offset(position))

    def refresh(self) -> None:
        landed, position = self.log.queries.landed_through, self.server.position()
        if position > landed:
            self.log.land(self.server.changes(landed, position), after=landed, through=position)

    def latest(self) -> Offset:
        return Offset(self.log.queries.landed_through)

    def offset_at(self, instant: dt.datetime) -> Offset | None:
        found = self.log.queries.offset_at(instant)
        return None if found is None else Offset(found)

    def at(self, offset: Offset | None = None) -> UpstreamDescription:
        newest = Offset(self.log.queries.landed_through if self.log.exists() else 0)
        return UpstreamDescription(location=self.location, offset=offset or newest, table_id="orders", types=TYPES)

    def watermark(self, offset: Offset) -> dt.datetime:
        return self.log.queries.committed_at(number(offset)) or dt.datetime.now(dt.UTC)

    def watch(self) -> SourceWatch:
        return self

    def look(self) -> tuple[Offset | None, Hashable]:
        return Offset(self.server.position()), None

    def seen_at(self, offset: Offset) -> dt.datetime:
        return dt.datetime.now(dt.UTC)

    def has_changes(self, after: Offset, up_to: Offset) -> bool:
        return self.log.queries.has_changes("orders", number(after), number(up_to))

    def changes_kept_for(self) -> dt.timedelta | None:
        return self.log.retention.changes_kept_for()

    def change_feed(
        self,
        read_up_to: Offset | None,
        needed_after: Offset | None = None,
        *,
        created_on: ResolvedUpstream | None = None,
        reached: HistoryPoint | None = None,
    ) -> ChangeFeed:
        return ChangeFeed(latest=self.latest(), kept_for=self.changes_kept_for())

    @property
    def old_columns(self) -> frozenset[str]:
        return frozenset(self.key)

    def row_count(self, offset: Offset) -> int:
        return len(self.server.rows())

    def blocks(self, offset: Offset, order: KeyOrder) -> Sequence[FileStatistics]:
        return [FileStatistics(path=self.location, row_count=self.row_count(offset), is_exact=False)]

    def blocks_of_job(self, offset: Offset, settings: JobSettings) -> tuple[Sequence[FileStatistics], KeyIndex]:
        return self.blocks(offset, settings.key_order), NoKeys()

    # -------------------------------------------------------------------------------------------- present rows

    @property
    def present(self) -> PresentRows:
        return self

    def begin_reading(self) -> ReadingStart:
        self.refresh()
        return ReadingStart(self.latest())

    def end_reading(self, name: str, server_run: str) -> bool:
        self.server.mark(name)
        return True

    def seen_by(self, name: str, ended_by: dt.datetime, server_run: str) -> Offset | None:
        found = self.log.queries.mark(name)
        return None if found is None else Offset(found)

    def sample_keys(self, most: int) -> Sequence[Position]:
        return [(key,) for key, _, _ in self.server.rows()][:most]


def number(offset: Offset) -> int:
    """Return an offset's position in the log; 0 for the beginning."""
    return offset.number or 0
