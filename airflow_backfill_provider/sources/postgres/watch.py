"""
Polls a table for changes that no epoch has read, without reading the database's log.

The server counts the rows that were inserted, updated and deleted in each table. As long as the counts of a table stay
the same, nothing was changed, even if the log grows because of other tables. The counts come a few seconds late.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable
from typing import Any

from airflow_backfill_provider.core.errors import UpstreamNotFoundError
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.postgres.landing import IDLE_BYTES
from airflow_backfill_provider.sources.shared.postgresql.database import Database
from airflow_backfill_provider.sources.shared.postgresql.lsn import parse_lsn
from airflow_backfill_provider.sources.watch import SourceWatch

MOST_UNSEEN_BYTES = 4 * IDLE_BYTES
"""After so many bytes of log, an epoch is needed even without changes: until then the server keeps the log."""

# TRUNCATE counts no rows, but gives a table another file. The counts begin again when the server starts after a crash.
_LOOK = """
SELECT pg_current_wal_lsn()::text, now(), pg_postmaster_start_time()::text,
       (SELECT string_agg(concat_ws(' ', c.oid, c.relfilenode, pg_stat_get_tuples_inserted(c.oid),
                                    pg_stat_get_tuples_updated(c.oid), pg_stat_get_tuples_deleted(c.oid)), ', '
                          ORDER BY c.oid)
        FROM pg_class c
        WHERE c.oid = t.oid OR c.oid IN (SELECT relid FROM pg_partition_tree(t.oid))),
       (SELECT wal_status <> 'lost' FROM pg_replication_slots WHERE slot_name = %s),
       CASE WHEN current_setting('track_counts')::boolean THEN '' ELSE pg_current_wal_lsn()::text END
FROM to_regclass(%s) t(oid)
"""


class PostgresWatch(SourceWatch):
    """
    Polls a table of a database.

    :param table: the table with its schema, as SQL writes it.
    :param slot: the name of the replication slot.
    """

    def __init__(self, database: Database, table: str, slot: str) -> None:
        self._database = database
        self._table = table
        self._slot = slot
        self._newest: int | None = None
        self._seen_at: dt.datetime | None = None
        self._known: tuple[Any, ...] = ()

    def look(self) -> tuple[Offset | None, Hashable]:
        """Return a position of the log after all changes of the table, and what the server says about the table."""
        with self._database.session() as connection:
            current, now, *found = connection.execute(_LOOK, [self._slot, self._table]).fetchall()[0]
        known, newest = tuple(found), parse_lsn(current)
        if known[1] is None:
            self._newest, self._known = None, ()
            return None, known
        if self._newest is None or known != self._known or newest - self._newest > MOST_UNSEEN_BYTES:
            self._newest, self._seen_at, self._known = newest, now, known
        return Offset(self._newest), known

    def seen_at(self, offset: Offset) -> dt.datetime:
        """Return when the newest offset was found; the times of commits are known once they are landed."""
        if self._seen_at is None or offset != Offset(self._newest):
            raise UpstreamNotFoundError(f"the watch of {self._table} has not found offset {offset}")
        return self._seen_at
