"""Reads a PostgreSQL table as it is now: from where its changes are needed afterwards, and where to cut it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg import sql

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.core.keys import KeyKind, KeyOrder, Position
from airflow_backfill_provider.core.offset import Offset
from airflow_backfill_provider.sources.base import PresentRows
from airflow_backfill_provider.sources.postgres import catalog
from airflow_backfill_provider.sources.postgres.catalog import Connection
from airflow_backfill_provider.sources.postgres.key_ranges import in_order
from airflow_backfill_provider.sources.postgres.lsn import parse_lsn
from airflow_backfill_provider.sources.postgres.sampling import sampled_percent

if TYPE_CHECKING:
    from airflow_backfill_provider.sources.postgres.source import PostgresSource

_PAGE_BYTES = 8192

_XID_BITS = (1 << 32) - 1
"""The log has transaction ids of 32 bits; snapshots have the number of their wraps, too."""


class PresentTable(PresentRows):
    """
    The present rows of a table.

    :param source: the table.
    """

    def __init__(self, source: PostgresSource) -> None:
        self._source = source

    def begin_reading(self) -> Offset:
        """
        Return an offset whose transactions all later readers see.

        The server writes a transaction's commit into the log a moment before others see the transaction; with
        synchronous replication, long before. Such a transaction may lie before the newest position of the log, so the
        offset is one before the first of them.
        """
        with self._source.database.session() as connection:
            newest = parse_lsn(_one(connection, "SELECT pg_current_wal_flush_lsn()::text"))
            # One snapshot: its list has only those in progress that are older than its end.
            _, end, in_progress = _one(connection, "SELECT pg_current_snapshot()::text").split(":")
        self._source.landing.land(at_least=newest)
        transactions = [int(xid) & _XID_BITS for xid in in_progress.split(",") if xid]
        earliest = self._source.log.earliest_of(transactions, up_to=newest, and_from=int(end) & _XID_BITS)
        return Offset(newest if earliest is None else earliest - 1)

    def end_reading(self, name: str) -> None:
        """Write a mark, which brings every commit before it to the disk, where the slot finds it."""
        with self._source.database.session() as connection:
            self._source.slot.mark(connection, name)

    def seen_by(self, name: str) -> Offset | None:
        """Return the offset of the reading's mark, once that is landed."""
        found = self._source.log.mark(name)
        return None if found is None else Offset(found)

    def sample_keys(self, most: int) -> Sequence[Position]:
        """Return the keys of some pages, thinned out."""
        upstream = self._source.upstream
        with self._source.database.session() as connection:
            table = self._source.describe(connection)
            order = self._source.at().key_order(upstream.key)
            types = {column.name: column.type.name for column in table.columns}
            _, size = catalog.size_of(connection, table.oid)
            percent = sampled_percent(size // _PAGE_BYTES)
            sampled: sql.Composable = sql.SQL("")
            if percent is not None:
                sampled = sql.SQL("TABLESAMPLE SYSTEM ({}) REPEATABLE (0)").format(percent)
            statement = sql.SQL("SELECT {} FROM {} {} ORDER BY {}").format(
                sql.SQL(", ").join(_key_text(name, types[name], number) for number, name in enumerate(order.names)),
                sql.Identifier(table.schema, table.name),
                sampled,
                in_order(order, types),
            )
            found = connection.execute(statement).fetchall()
        step = max(len(found) // most, 1)
        # The last key of each part is its end.
        return [_decoded(order, texts) for texts in found[step - 1 :: step]]


def _key_text(name: str, type_name: str, number: int) -> sql.Composable:
    """Return a key column as text, under a name of its own: ``ORDER BY`` would take the text, not the column."""
    column, alias = sql.Identifier(name), sql.Identifier(f"key_{number}")
    if type_name == "bytea":
        return sql.SQL("encode({}, 'hex') AS {}").format(column, alias)
    return sql.SQL("{}::text AS {}").format(column, alias)


def _decoded(order: KeyOrder, texts: Sequence[str]) -> Position:
    decoded = order.decode(
        [
            text.replace(" ", "T") if field.kind in {KeyKind.TIMESTAMP, KeyKind.TIMESTAMP_NTZ} else text
            for field, text in zip(order.fields, texts, strict=True)
        ]
    )
    if decoded is None:
        raise UpstreamError("a key of the sample has no columns")
    return decoded


def _one(connection: Connection, statement: LiteralString) -> Any:
    row = connection.execute(statement).fetchone()
    return None if row is None else row[0]
