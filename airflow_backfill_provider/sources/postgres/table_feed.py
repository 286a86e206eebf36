"""What a job lacks of a PostgreSQL table's changes, as far as the server keeps them and as the change log does."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream
from airflow_backfill_provider.core.errors import ChangeFeedGapError
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.status.change_feed import ChangeFeed
from airflow_backfill_provider.sources.description import other_table
from airflow_backfill_provider.sources.postgres.landing import IDLE_BYTES
from airflow_backfill_provider.sources.postgres.published import Published
from airflow_backfill_provider.sources.postgres.slot import SlotStatus
from airflow_backfill_provider.sources.postgres.table import PostgresTable, table_id
from airflow_backfill_provider.sources.shared.change_log.changes import OF_ALL_TABLES, LoggedKind
from airflow_backfill_provider.sources.shared.change_log.retention import KEPT_FOR_PROPERTY
from airflow_backfill_provider.sources.shared.postgresql import catalog
from airflow_backfill_provider.sources.shared.postgresql.catalog import Connection, DescribedTable
from airflow_backfill_provider.sources.shared.postgresql.database import SlotInUseError
from airflow_backfill_provider.sources.shared.postgresql.lsn import lsn_of

MOST_LOOKED_THROUGH = 4 * IDLE_BYTES
"""How much log the server may keep, so that it is looked through for unread changes; a second of work at most."""


@dataclass(frozen=True, slots=True)
class TableFeed:
    """
    The changes of one table.

    :param table: the table.
    """

    table: PostgresTable

    def read(
        self, read_up_to: Offset | None, needed_after: Offset | None, created_on: ResolvedUpstream | None
    ) -> ChangeFeed:
        """
        Return what the job lacks; see :meth:`~airflow_backfill_provider.sources.base.Source.change_feed`.

        :raises DatabaseUnavailableError: if the database does not answer.
        """
        with self.table.database.session() as connection:
            try:
                status = self.table.slot.status(connection)
            except ChangeFeedGapError as error:
                return ChangeFeed(latest=self.table.newest_or_beginning(), kept_for=None, replaced=str(error))
            server = catalog.server(connection)
            table = self.table.describe(connection)
            replaced = (
                other_table(self.table.location, table_id(server, table), created_on.table_id) if created_on else ""
            ) or self._not_published(connection, table)
            latest, since = Offset(status.current), None
            if read_up_to is not None and not replaced:
                latest, since = self._unread(connection, status, str(table.oid), read_up_to)
        after = read_up_to if needed_after is None else needed_after
        return ChangeFeed(
            latest=latest,
            unread_since=since,
            kept_bytes=status.kept,
            bytes_left=status.left,
            replaced=replaced,
            **self._kept(str(table.oid), None if replaced else after),
        )

    def _unread(
        self, connection: Connection, status: SlotStatus, table: str, read_up_to: Offset
    ) -> tuple[Offset, dt.datetime | None]:
        """Return the newest offset, and when the oldest unread change was committed; at most so long ago if unknown."""
        newest = Offset(status.current)
        landed = self.table.log.queries.changed_since(table, lsn_of(read_up_to))
        if landed is not None:
            return newest, landed
        try:
            if status.kept > MOST_LOOKED_THROUGH:
                return newest, self.table.log.queries.committed_at(status.current)
            unlanded = self.table.landing.oldest_unlanded(connection, table)
        except SlotInUseError:
            # A landing comes first, and tells soon.
            return newest, self.table.log.queries.committed_at(status.current)
        return (read_up_to, None) if unlanded is None else (newest, unlanded.committed_at)

    def _not_published(self, connection: Connection, table: DescribedTable) -> str:
        """Return which changes the slot does not return, and what the next landing would find out about that."""
        if unpublished := self.table.slot.unpublished(connection, table):
            return unpublished
        if not self.table.log.exists():
            return ""
        published = Published.now(connection, self.table.slot.publication)
        texts = {row["table"]: row["new"]["text"] for row in published.differences(self.table.log.queries.published_as)}
        text = texts.get(OF_ALL_TABLES) or texts.get(str(table.oid))
        return f"{self.table.location}: the slot does not return {text}" if text else ""

    def _kept(self, table: str, needed_after: Offset | None) -> dict[str, Any]:
        """
        Return the fields of a change feed about how long the change log keeps what a job needs.

        :param table: the table's id in the log.
        :param needed_after: the offset after which the job needs changes; ``None`` if it needs none.
        """
        if not self.table.log.exists():
            return {"kept_for": None}
        kept = {
            "kept_for": self.table.log.retention.changes_kept_for(),
            "kept_by": f"{KEPT_FOR_PROPERTY} of the change log at {self.table.log.location}",
            "unreadable": self.table.log.retention.unreadable(),
        }
        needed = None if needed_after is None else self.table.log.queries.first_needed(table, lsn_of(needed_after))
        if needed is None:
            return kept
        offset, kind = needed
        is_lost = kind in {LoggedKind.GAP, LoggedKind.PART_REMOVED}
        since = None if is_lost else self.table.log.queries.kept_since(offset) or dt.datetime.now(dt.UTC)
        return {**kept, "needed": Offset(offset), "needed_since": since}
