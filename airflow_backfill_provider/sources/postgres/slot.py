"""
A logical replication slot: PostgreSQL keeps its log from the slot's position on, until the slot is advanced.

Changes are looked at without consuming them. The slot is advanced only when they are in the change log.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from psycopg import errors, sql

from airflow_backfill_provider.core.errors import (
    ChangeFeedGapError,
    ConcurrentUpdateError,
    DatabaseRefusedError,
    DatabaseUnavailableError,
    UpstreamError,
)
from airflow_backfill_provider.sources.postgres.marks import BEGIN, MARK_PREFIX
from airflow_backfill_provider.sources.postgres.rights import (
    NO_LOGICAL_LOG,
    NO_SLOT_LEFT,
    may_not_publish,
    may_not_replicate,
)
from airflow_backfill_provider.sources.postgres.slot_owner import Claim, SlotOwner
from airflow_backfill_provider.sources.shared.postgresql.catalog import Connection, DescribedTable
from airflow_backfill_provider.sources.shared.postgresql.lsn import lsn_text, parse_lsn
from airflow_backfill_provider.sources.shared.postgresql.on_disk import newest_lsn
from airflow_backfill_provider.sources.shared.postgresql.published_schemas import with_published_schemas

PLUGIN = "pgoutput"

_LOST = "lost"
"""The state of a slot that needs log which the server has removed."""

_PATIENCE = "60s"
"""How long the creation of a slot waits for transactions that are in progress."""

_STATUS = """
SELECT plugin, database, active, wal_status, restart_lsn::text, confirmed_flush_lsn::text, safe_wal_size,
       pg_current_wal_flush_lsn()::text, pg_size_bytes(current_setting('max_slot_wal_keep_size'))
FROM pg_replication_slots WHERE slot_name = %s
"""

# The columns for some rows and some columns of a table are new in PostgreSQL 15.
_PUBLISHED = """
SELECT p.puballtables, p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate, p.pubviaroot,
       s.oid IS NOT NULL OR r.oid IS NOT NULL,
       s.oid IS NULL AND (to_jsonb(r) ->> 'prqual' IS NOT NULL OR to_jsonb(r) ->> 'prattrs' IS NOT NULL),
       EXISTS (SELECT FROM pg_partition_ancestors(c.oid) a JOIN pg_class k ON k.oid = a.relid
               LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = a.relid
               LEFT JOIN {published_schemas} s ON s.pnpubid = p.oid AND s.pnnspid = k.relnamespace
               WHERE a.relid <> c.oid AND (p.puballtables OR r.oid IS NOT NULL OR s.oid IS NOT NULL))
FROM pg_publication p
JOIN pg_class c ON c.oid = %s::bigint::oid
LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = c.oid
LEFT JOIN {published_schemas} s ON s.pnpubid = p.oid AND s.pnnspid = c.relnamespace
WHERE p.pubname = %s
"""

# The plugin reads a list of names in SQL. The name comes as bytes, because a session may have no encoding.
_PEEK = """
SELECT data FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, NULL, 'proto_version', '1', 'publication_names',
                                                     quote_ident(convert_from(%s, 'UTF8')), 'messages', 'true')
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotStatus:
    """
    The state of a slot.

    :param confirmed: the LSN up to which changes were consumed.
    :param current: the database's newest LSN on disk; a slot returns nothing after it, although more may be written.
    :param kept: the bytes of log that the slot keeps on the server.
    :param left: the bytes of log that may still be written before the slot is lost; ``None`` if it keeps all.
    """

    confirmed: int
    current: int
    kept: int
    left: int | None


@dataclass(frozen=True, slots=True)
class ReplicationSlot:
    """
    A replication slot with its publication, which names the tables that it returns changes of.

    :param name: the slot's name.
    :param publication: the publication's name.
    """

    name: str
    publication: str

    def exists(self, connection: Connection) -> bool:
        """Return whether the slot exists."""
        return self._row(connection) is not None

    def ensure(self, connection: Connection, owner: SlotOwner) -> bool:
        """
        Create the slot, unless it exists, after what it is to return was published.

        :param owner: whose the slot is.
        :returns: whether it was created.
        :raises DatabaseRefusedError: if the login may not create it; with the statements to run.
        :raises DatabaseUnavailableError: if a transaction stays in progress.
        :raises ConcurrentUpdateError: if another process creates it at the same moment, perhaps for another job.
        """
        if self._is_lost(connection):
            # Nobody can use it any more.
            self._drop(connection)
        if self.exists(connection):
            return False
        return self._create(connection, owner)

    def begin(self, connection: Connection) -> int:
        """
        Wait for transactions in progress, because the slot does not return the changes that they made before.

        :returns: an LSN; changes of transactions that are committed later are complete.
        :raises ChangeFeedGapError: if the slot is gone.
        :raises DatabaseUnavailableError: if a transaction stays in progress.
        """
        self.status(connection)
        return self._after_all_in_progress(connection)

    def status(self, connection: Connection) -> SlotStatus:
        """
        Return the slot's state.

        :raises ChangeFeedGapError: if the slot is gone, or the server removed log that it needs.
        :raises UpstreamError: if the name is another program's slot.
        """
        row = self._row(connection)
        if row is None:
            raise ChangeFeedGapError(
                f"the replication slot {self.name} is gone: it was dropped, or the server failed over to a standby "
                "without it. Changes since then are unknown; rebuild the job"
            )
        plugin, database, _, wal_status, restart, confirmed, left, current, limit = row
        if plugin != PLUGIN or database != connection.info.dbname:
            raise UpstreamError(
                f"the replication slot {self.name} belongs to something else (plugin {plugin}, database {database}); "
                "choose another slot"
            )
        if wal_status == _LOST or restart is None:
            raise ChangeFeedGapError(
                f"the replication slot {self.name} is lost: the server removed log that it needed, because it kept "
                "more than max_slot_wal_keep_size. Rebuild the job, and run epochs more often or raise that setting"
            )
        return SlotStatus(
            confirmed=parse_lsn(confirmed),
            current=parse_lsn(current),
            kept=parse_lsn(current) - parse_lsn(restart),
            left=None if limit < 0 else left,
        )

    def unpublished(self, connection: Connection, table: DescribedTable) -> str:
        """Return why the slot does not return changes of a table; an empty text if it does."""
        published = self._published(connection, table.oid)
        if published is not None and published[5]:
            return self._under_another_name(table)
        if published is not None and (published[0] or published[3]):
            return ""
        return (
            f"publication {self.publication} is gone or does not have {table.schema}.{table.name} any more, so changes "
            "since then are unknown; rebuild the job"
        )

    def peek(self, connection: Connection, up_to: int) -> Iterator[bytes]:
        """
        Yield the messages of whole transactions that were committed before an LSN, without consuming them.

        They come one by one, because one may be as large as a thousand others.

        :param connection: a session that is used for nothing else meanwhile.
        :raises ChangeFeedGapError: if the slot is gone.
        """
        self.status(connection)
        yield from self._messages(connection, up_to)

    def peek_unconverted(self, connection: Connection, up_to: int) -> Iterator[bytes]:
        """Yield the same messages with all texts in the encoding of the database; the session has none afterwards."""
        self.status(connection)
        connection.execute("SET client_encoding TO 'SQL_ASCII'")
        yield from self._messages(connection, up_to)

    def _messages(self, connection: Connection, up_to: int) -> Iterator[bytes]:
        with connection.cursor(binary=True) as cursor:
            try:
                for (message,) in cursor.stream(_PEEK, [self.name, lsn_text(up_to), self.publication.encode()]):
                    yield message
            except errors.UndefinedObject as error:
                # Also if it was created again: it did not exist when the changes were made.
                raise ChangeFeedGapError(
                    f"publication {self.publication} was dropped, so changes since then are unknown; rebuild the job. "
                    f"If jobs share the slot, drop it before: SELECT pg_drop_replication_slot('{self.name}')"
                ) from error

    def advance(self, connection: Connection, lsn: int) -> None:
        """Tell the server that the log up to an LSN is no longer needed; it never goes back."""
        if self.status(connection).confirmed < lsn:
            connection.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", [self.name, lsn_text(lsn)])

    def drop(self, connection: Connection) -> None:
        """
        Drop the slot, so that the server keeps no log for it, and the publication; a no-op if they are gone.

        A publication of somebody else stays; it costs nothing.
        """
        if self._row(connection) is not None:
            self._drop(connection)
        with contextlib.suppress(errors.InsufficientPrivilege):
            connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(self.publication)))

    def _drop(self, connection: Connection) -> None:
        connection.execute("SELECT pg_drop_replication_slot(%s)", [self.name])

    def _is_lost(self, connection: Connection) -> bool:
        """Return whether the slot is one of this database, and the server removed log that it needs."""
        row = self._row(connection)
        return row is not None and row[:2] == (PLUGIN, connection.info.dbname) and row[3] == _LOST

    def _row(self, connection: Connection) -> tuple[Any, ...] | None:
        return connection.execute(_STATUS, [self.name]).fetchone()

    def publish(self, connection: Connection, table: DescribedTable, owner: SlotOwner) -> None:
        """
        Create the publication, unless it exists, and publish a table.

        :param owner: whose the slot is.
        :raises DatabaseRefusedError: if the login may not do that, or the publication leaves something out; with the
            statements to run.
        :raises UpstreamError: if another job created the publication for the slot at the same moment.
        """
        name, of_table = sql.Identifier(self.publication), sql.Identifier(table.schema, table.name)
        if self._published(connection, table.oid) is None:
            with connection.transaction():
                self._define(connection, sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(name, of_table))
                owner.note(connection)
        elif self.publication == self.name:
            owner.note(connection)
        owner.require_not_of_others(connection, has_log=False, is_own_name=False)
        if not self.require_publishable(connection, table):
            self._define(connection, sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(name, of_table))

    def require_publishable(self, connection: Connection, table: DescribedTable) -> bool:
        """
        Refuse a publication that leaves something out, without changing it.

        :returns: whether it has the table.
        :raises DatabaseRefusedError: with the statements to run.
        """
        published = self._published(connection, table.oid)
        if published is None:
            return False
        of_table = sql.Identifier(table.schema, table.name)
        all_tables, all_operations, via_root, has_table, has_parts_only, has_ancestor = published
        if has_ancestor:
            raise DatabaseRefusedError(self._under_another_name(table))
        if via_root or not all_operations:
            raise DatabaseRefusedError(
                f"publication {self.publication} leaves out operations, or hides a TRUNCATE of a partition, because it "
                f'publishes partitions as their table; run: ALTER PUBLICATION "{self.publication}" SET '
                "(publish = 'insert, update, delete, truncate', publish_via_partition_root = false)"
            )
        if has_parts_only:
            raise DatabaseRefusedError(
                f"publication {self.publication} has only some rows or columns of {table.schema}.{table.name}; run: "
                f'ALTER PUBLICATION "{self.publication}" SET TABLE ' + of_table.as_string(connection)
            )
        return all_tables or has_table

    def _under_another_name(self, table: DescribedTable) -> str:
        return (
            f"publication {self.publication} also has the table that {table.schema}.{table.name} is a partition of, so "
            "its changes count as those of the whole table; give the job a slot and a publication of its own"
        )

    def _published(self, connection: Connection, oid: int) -> tuple[bool, bool, bool, bool, bool, bool] | None:
        """Return what the publication has; ``None`` if there is none."""
        query = with_published_schemas(_PUBLISHED, connection.info.server_version)
        return connection.execute(query, [oid, self.publication]).fetchone()

    @staticmethod
    def _define(connection: Connection, statement: sql.Composed) -> None:
        try:
            with connection.transaction():
                connection.execute(statement)
        except errors.InsufficientPrivilege as error:
            raise DatabaseRefusedError(may_not_publish(connection, statement)) from error
        except (errors.DuplicateObject, errors.UniqueViolation):
            # Another process did the same at the same time.
            return

    def _create(self, connection: Connection, owner: SlotOwner) -> bool:
        try:
            with connection.transaction():
                connection.execute(sql.SQL("SET LOCAL statement_timeout = {}").format(_PATIENCE))
                connection.execute("SELECT pg_create_logical_replication_slot(%s, %s)", [self.name, PLUGIN])
        except errors.DuplicateObject as error:
            if owner.claim(connection, has_log=False) is Claim.OURS:
                return False
            raise ConcurrentUpdateError(
                f"another process created the replication slot {self.name} at the same moment; try again"
            ) from error
        except errors.QueryCanceled as error:
            raise self._still_in_progress() from error
        except errors.ObjectNotInPrerequisiteState as error:
            raise DatabaseRefusedError(NO_LOGICAL_LOG) from error
        except errors.ConfigurationLimitExceeded as error:
            raise DatabaseRefusedError(NO_SLOT_LEFT) from error
        except errors.InsufficientPrivilege as error:
            raise DatabaseRefusedError(may_not_replicate(connection)) from error
        return True

    def _after_all_in_progress(self, connection: Connection) -> int:
        """Wait until every transaction that is in progress has ended, and return the newest LSN."""
        row = connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchone()
        until = row[0] if row else "0"
        try:
            with connection.transaction():
                connection.execute(sql.SQL("SET LOCAL statement_timeout = {}").format(_PATIENCE))
                connection.execute(
                    "DO $$ BEGIN WHILE pg_snapshot_xmin(pg_current_snapshot()) < " + f"'{int(until)}'::xid8 "
                    "LOOP PERFORM pg_sleep(0.05); END LOOP; END $$"
                )
        except errors.QueryCanceled as error:
            raise self._still_in_progress() from error
        begin = newest_lsn(connection)
        # The first landing has at least this, and its time.
        self.mark(connection, BEGIN)
        return begin

    def mark(self, connection: Connection, text: str) -> int:
        """
        Write a mark into the log, and wait until it is on disk.

        :returns: an LSN after the mark; changes that were visible before are committed before it.
        """
        with connection.transaction():
            connection.execute("SET LOCAL synchronous_commit = local")
            connection.execute("SELECT pg_logical_emit_message(true, %s, %s)", [MARK_PREFIX, text])
        return newest_lsn(connection)

    def _still_in_progress(self) -> DatabaseUnavailableError:
        return DatabaseUnavailableError(
            f"transactions have been in progress for {_PATIENCE}, so the replication slot {self.name} cannot begin; "
            "end them (see pg_stat_activity), or try again"
        )
