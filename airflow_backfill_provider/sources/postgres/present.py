"""Reads a PostgreSQL table as it is now: from where its changes are needed afterwards, and where to cut it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from airflow_backfill_provider.core.scan.keys import KeyRange, Position
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.postgres.marks import Marks
from airflow_backfill_provider.sources.postgres.table import PostgresTable
from airflow_backfill_provider.sources.present_rows import PresentRows, ReadingStart
from airflow_backfill_provider.sources.shared.postgresql import catalog
from airflow_backfill_provider.sources.shared.postgresql.catalog import Connection
from airflow_backfill_provider.sources.shared.postgresql.key_sample import first_rows, rows_in, sampled_keys
from airflow_backfill_provider.sources.shared.postgresql.on_disk import newest_lsn
from airflow_backfill_provider.sources.shared.postgresql.rewrites import TableLook
from airflow_backfill_provider.sources.shared.postgresql.transactions import UnseenTransactions, unseen_transactions


class PresentTable(PresentRows):
    """
    The present rows of a table.

    :param table: the table.
    """

    def __init__(self, table: PostgresTable) -> None:
        self._table = table

    def begin_reading(self) -> ReadingStart:
        """
        Return an offset whose transactions all later readers see.

        The server writes a transaction's commit into the log a moment before others see the transaction; with
        synchronous replication, long before. Such a transaction may lie before the newest position of the log, so the
        offset is one before the first of them.
        """
        with self._table.database.session() as connection:
            server_run = self._run(connection)
            newest = newest_lsn(connection)
            unseen = unseen_transactions(connection)
        self._table.landing.land(at_least=newest)
        return ReadingStart(Offset(self._seen_in(unseen, newest)), server_run)

    def seen_by_all(self, landed: int) -> int:
        """
        Return an offset whose transactions all later readers see, without landing more.

        :param landed: the offset through which changes are landed, which is not exceeded.
        """
        with self._table.database.session() as connection:
            unseen = unseen_transactions(connection)
        return self._seen_in(unseen, landed)

    def _seen_in(self, unseen: UnseenTransactions, landed: int) -> int:
        """Return the last landed offset before the first transaction that a snapshot does not see."""
        earliest = self._table.log.queries.earliest_of(unseen.in_progress, up_to=landed, and_within=unseen.later)
        return landed if earliest is None else earliest - 1

    def end_reading(self, name: str, server_run: str) -> bool:
        """
        Write a mark, which brings every commit before it to the disk, where the slot finds it.

        With ``synchronous_commit = off``, others see a transaction before it is on disk, and a crash loses it. After
        one that came before the mark, readers may have seen such a transaction.
        """
        with self._table.database.session() as connection:
            # A crash in between ends the session.
            if self._run(connection) != server_run:
                return False
            self._table.slot.mark(connection, Marks(self._table.log.secret()).text(name))
        return True

    def _run(self, connection: Connection) -> str:
        """
        Return what identifies the server's run, and the table's used columns and files.

        If these change while rows are read, the readers may have taken one column for another, or seen no rows at all.
        """
        table, created = self._table.describe(connection), self._table.created
        used = {column.name for column in (table if created is None else created).columns}
        return f"{catalog.server_run(connection)} {TableLook.now(connection, table.oid).version(used)}"

    def seen_by(self, name: str, ended_by: dt.datetime, server_run: str) -> Offset | None:
        """Return the offset of the reading's mark, once that is landed."""
        del ended_by, server_run
        found = self._table.log.queries.mark(Marks(self._table.log.secret()).text(name))
        return None if found is None else Offset(found)

    def sample_keys(self, most: int) -> Sequence[Position]:
        """Return the keys of some pages, thinned out."""
        with self._table.database.session() as connection:
            table = self._table.describe(connection)
            return sampled_keys(connection, table, self._table.key_order, most)

    def first_rows(self, covered: KeyRange, rows: int) -> KeyRange:
        """Return the first part of a range of keys that has so many rows, by the key's index."""
        with self._table.database.session() as connection:
            table = self._table.describe(connection)
            order = self._table.key_order
            return first_rows(connection, table, order, covered, rows)

    def rows_in(self, covered: KeyRange) -> int:
        """Count the rows in a range of keys, by the key's index."""
        with self._table.database.session() as connection:
            table = self._table.describe(connection)
            return rows_in(connection, table, self._table.key_order, covered)
