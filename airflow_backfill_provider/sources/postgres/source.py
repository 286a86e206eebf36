"""
A PostgreSQL table as a job's upstream, without a JVM: its catalog, its slot, and its change log.

The change log answers everything about offsets, so an epoch can be attempted again while the database does not answer,
unless it has to read rows.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Sequence
from functools import cached_property

from airflow_backfill_provider.core.epoch.settings import JobSettings, ResolvedUpstream
from airflow_backfill_provider.core.errors import (
    ChangeFeedGapError,
    DatabaseRefusedError,
    DatabaseUnavailableError,
    UpstreamReplacedError,
    UpstreamSchemaChangedError,
)
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics, KeyIndex
from airflow_backfill_provider.core.scan.keys import KeyOrder
from airflow_backfill_provider.core.scan.offset import BEGINNING, HistoryPoint, Offset
from airflow_backfill_provider.core.status.change_feed import ChangeFeed
from airflow_backfill_provider.lake.store.storage import one_line
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.postgres.beginning import Beginning
from airflow_backfill_provider.sources.postgres.description import PostgresDescription
from airflow_backfill_provider.sources.postgres.present import PresentTable
from airflow_backfill_provider.sources.postgres.table import PostgresTable
from airflow_backfill_provider.sources.postgres.table_feed import TableFeed
from airflow_backfill_provider.sources.postgres.watch import PostgresWatch
from airflow_backfill_provider.sources.shared.no_keys import NoKeys
from airflow_backfill_provider.sources.shared.postgresql.column_identity import pinned_numbers
from airflow_backfill_provider.sources.shared.postgresql.lsn import lsn_of
from airflow_backfill_provider.sources.watch import SourceWatch

logger = logging.getLogger(__name__)


class PostgresSource(Source):
    """
    A table. An offset is an LSN of the database.

    :param table: what each part of the source asks.
    """

    def __init__(self, table: PostgresTable) -> None:
        self.table = table
        self.upstream, self.created = table.upstream, table.created
        self.database, self.slot, self.log = table.database, table.slot, table.log

    @property
    def location(self) -> str:
        """The connection and the table."""
        return self.upstream.location

    def as_created(self, upstream: ResolvedUpstream) -> PostgresSource:
        """Return the table for a job, whose reader leaves out all columns that the job does not use."""
        return PostgresSource(PostgresTable(self.upstream, self.table.storage_options, upstream))

    # ------------------------------------------------------------------------------------------------- history

    def begin(self, job: str) -> HistoryPoint:
        """
        Create slot and change log, unless they exist, and return the point after which changes are complete.

        :raises DatabaseRefusedError: if the login may not create a slot; with what to do.
        :raises UnsupportedValueError: if a row's key cannot be ordered.
        :raises UpstreamError: if the slot belongs to another job; or if the change log cannot be continued, and other
            jobs may read it.
        """
        return HistoryPoint(offset=Offset(self._beginning.make(job)))

    def require_can_begin(self, job: str) -> None:
        """Refuse a slot that belongs to another job, and a server or a publication that cannot be used."""
        self._beginning.require_can(job)

    def has_begun(self, job: str) -> bool:
        """Return whether the slot and the change log exist."""
        del job
        return self._beginning.exists()

    def undo_begin(self, job: str) -> bool:
        """Remove slot, publication and change log, unless they belong to another job."""
        return self._beginning.remove(job)

    def missing_rights(self) -> Sequence[str]:
        """
        Return what the login or the server lacks so that the job can be created, each with what to do.

        :raises DatabaseUnavailableError: if the database does not answer.
        """
        return self._beginning.missing_rights()

    def end(self, job: str) -> None:
        """Drop the job's own slot, so that the server keeps no log for it; a slot that is shared stays."""
        if self.upstream.has_own_slot(job):
            self._beginning.end()

    @cached_property
    def _beginning(self) -> Beginning:
        return Beginning(self.table)

    def refresh(self) -> None:
        """Land what the slot has, in the change log, and clean that up once a day."""
        self.table.landing.land()
        now = dt.datetime.now(dt.UTC)
        if self.log.retention.is_clean_up_due(now):
            self._clean_up(now)

    def _clean_up(self, now: dt.datetime) -> None:
        """Clean the change log up; if that fails, the next request tries again."""
        try:
            self.log.retention.clean_up(now, up_to=self.present.seen_by_all(self.log.queries.landed_through))
        except Exception as error:  # noqa: BLE001 - whatever it is, the request does not need it
            logger.warning("the change log at %s was not cleaned up: %s", self.log.location, one_line(error))

    def latest(self) -> Offset:
        """
        Return the offset through which changes are landed.

        :raises ChangeFeedGapError: if the change log is gone.
        """
        return Offset(self.log.queries.landed_through)

    def at(self, offset: Offset | None = None) -> PostgresDescription:
        """
        Describe the table as it is now; the changes of a window are checked by :meth:`require_used_columns`.

        :raises UpstreamNotFoundError: if there is no such table, or it cannot be read.
        """
        return self.table.at(offset)

    def offset_at(self, instant: dt.datetime) -> Offset | None:
        """Return the newest landed offset that was committed at or before an instant."""
        found = self.log.queries.offset_at(instant)
        return None if found is None else Offset(found)

    def watermark(self, offset: Offset) -> dt.datetime:
        """
        Return when the newest transaction at or before an offset was committed.

        :raises ChangeFeedGapError: if the change log does not have it.
        """
        found = self.log.queries.committed_at(lsn_of(offset))
        if found is None:
            raise ChangeFeedGapError(f"{self.log.location} has no transaction at or before offset {offset}")
        return found

    def require_same_history(self, known: HistoryPoint) -> None:
        """
        Refuse a change log that does not reach an offset that the job has reached.

        :raises UpstreamReplacedError: with what differs.
        """
        landed = self.log.queries.landed_through
        if landed < lsn_of(known.offset):
            raise UpstreamReplacedError(
                f"the change log at {self.log.location} ends with offset {landed}, but the job has read up to "
                f"{known.offset}; it was restored from an older copy: rebuild the job"
            )
        self.log.queries.require_changes(self.table.log_table, lsn_of(known.offset), landed)

    def watch(self) -> SourceWatch:
        """Return a watch that asks the database whether its table was changed."""
        return PostgresWatch(self.database, self.upstream.table, self.slot.name)

    # ------------------------------------------------------------------------------------------------- changes

    def has_changes(self, after: Offset, up_to: Offset) -> bool:
        """Return whether rows of the table changed in ``(after, up_to]``."""
        return self.log.queries.has_changes(self.table.log_table, lsn_of(after), lsn_of(up_to))

    def changes_kept_for(self) -> dt.timedelta | None:
        """
        Return how long a change stays in the change log, as of now; ``None`` if its property cannot be read.

        :raises ChangeFeedGapError: if the change log is gone.
        """
        return self.log.retention.changes_kept_for()

    def change_feed(
        self,
        read_up_to: Offset | None,
        needed_after: Offset | None = None,
        *,
        created_on: ResolvedUpstream | None = None,
        reached: HistoryPoint | None = None,
    ) -> ChangeFeed:
        """
        Return the changes that the job lacks, the log that the server keeps, and whether the table is still the job's.

        A slot that is gone or lost counts as a replaced upstream: only a rebuild helps. If the table has not changed
        since the job has read it, the newest offset is the one that the job is at, however much the server has logged
        of other tables.

        It also says how long the change log keeps what the job needs. The server keeps what is not landed yet.
        """
        del reached
        try:
            return TableFeed(self.table).read(read_up_to, needed_after, created_on)
        except (DatabaseUnavailableError, DatabaseRefusedError) as error:
            latest = max(self.table.newest_or_beginning(), read_up_to or BEGINNING)
            return ChangeFeed(
                latest=latest, kept_for=None, unanswered=str(error), landed_at=self.log.queries.written_at()
            )

    @property
    def old_columns(self) -> frozenset[str]:
        """The key: the log need not have more of a row before its change."""
        return frozenset(self.table.key)

    @property
    def may_be_cleared(self) -> bool:
        """TRUNCATE removes all rows."""
        return True

    def require_changes(self, after: Offset, up_to: Offset) -> None:
        """
        Refuse a window ``(after, up_to]`` with changes that the change log does not have, or no longer has.

        :raises ChangeFeedGapError: with why.
        """
        self.log.queries.require_changes(self.table.log_table, lsn_of(after), lsn_of(up_to))

    def require_same_values(self, after: Offset, up_to: Offset, upstream: ResolvedUpstream) -> None:
        """
        Refuse a window in which ``ALTER TABLE`` wrote values of a used column anew.

        :raises UpstreamSchemaChangedError: with the columns.
        """
        used = {column.name for column in upstream.columns}
        found = self.log.queries.rewritten_within(self.table.log_table, lsn_of(after), lsn_of(up_to))
        if problems := [f"column {name} {text}" for name, text in found.items() if name in used]:
            # If the log has changes with another type, that is the more exact reason.
            self.require_used_columns(after, up_to, upstream)
            raise UpstreamSchemaChangedError(
                f"values of {self.location} changed after offset {after}, and no change of a row says so: "
                f"{'; '.join(problems)}; rebuild the job"
            )

    def require_used_columns(self, after: Offset, up_to: Offset, upstream: ResolvedUpstream) -> None:
        """
        Refuse a window in which a used column was missing or had another type, as the database logged it.

        :raises UpstreamSchemaChangedError: with the columns and the offset.
        """
        as_text, numbers = set(self.upstream.as_text), pinned_numbers(upstream.pinned)
        for logged in self.log.queries.columns_within(self.table.log_table, lsn_of(after), lsn_of(up_to)):
            problems = []
            for column in upstream.columns:
                found = logged.types.get(column.name)
                if found is None:
                    problems.append(f"column {column.name} was gone")
                elif found != column.type and column.name not in as_text:
                    problems.append(f"column {column.name} was {column.type} and became {found}")
                elif numbers.get(column.name) not in {None, logged.numbers.get(column.name, numbers.get(column.name))}:
                    problems.append(f"another column had the name {column.name}")
            if problems:
                raise UpstreamSchemaChangedError(
                    f"changes of {self.location} as of offset {logged.offset} do not have the columns that the job "
                    f"uses: {'; '.join(problems)}; adapt the job's query and rebuild it"
                )

    # ------------------------------------------------------------------------------------------- rows and keys

    def row_count(self, offset: Offset) -> int:
        """Return the server's estimate of the table's rows."""
        del offset
        return self.table.size[0]

    def blocks(self, offset: Offset, order: KeyOrder) -> Sequence[FileStatistics]:
        """Return the table as one block, whose rows are estimated."""
        del offset, order
        rows, size = self.table.size
        return [FileStatistics(path=self.location, row_count=rows, is_exact=False, size=size)]

    def blocks_of_job(self, offset: Offset, settings: JobSettings) -> tuple[Sequence[FileStatistics], KeyIndex]:
        """Return the table as one block; its keys are not known without reading it."""
        return self.blocks(offset, settings.key_order), NoKeys()

    @property
    def present(self) -> PresentTable:
        """The table's present rows."""
        return PresentTable(self.table)
