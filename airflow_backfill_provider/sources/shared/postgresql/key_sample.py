"""Keys of a PostgreSQL table that divide its rows into parts of about the same size, or of an exact one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg import sql

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.core.scan.keys import KeyKind, KeyOrder, KeyRange, Position
from airflow_backfill_provider.sources.shared.postgresql import catalog
from airflow_backfill_provider.sources.shared.postgresql.catalog import Connection, DescribedTable
from airflow_backfill_provider.sources.shared.postgresql.key_ranges import condition, in_order
from airflow_backfill_provider.sources.shared.postgresql.key_values import is_strange
from airflow_backfill_provider.sources.shared.postgresql.sampling import sampled_percent

_PAGE_BYTES = 8192


def sampled_keys(connection: Connection, table: DescribedTable, order: KeyOrder, most: int) -> Sequence[Position]:
    """
    Return the keys of some pages, thinned out.

    :param order: the key's order.
    :param most: about how many keys to return; all keys of a small table.
    """
    types = {column.name: column.type.name for column in table.columns}
    _, size = catalog.size_of(connection, table.oid)
    percent = sampled_percent(size // _PAGE_BYTES)
    sampled: sql.Composable = sql.SQL("")
    if percent is not None:
        sampled = sql.SQL("TABLESAMPLE SYSTEM ({}) REPEATABLE (0)").format(percent)
    statement = sql.SQL("SELECT {} FROM {} {} WHERE {} ORDER BY {}").format(
        _key_texts(order, types),
        sql.Identifier(table.schema, table.name),
        sampled,
        _is_usual(order, types),
        in_order(order, types),
    )
    found = connection.execute(statement).fetchall()
    step = max(len(found) // most, 1)
    # The last key of each part is its end.
    return [_decoded(order, texts) for texts in found[step - 1 :: step]]


def first_rows(
    connection: Connection, table: DescribedTable, order: KeyOrder, covered: KeyRange, rows: int
) -> KeyRange:
    """
    Return the first part of a range of keys that has so many rows, or the range itself if it has no more.

    The server goes through as many entries of the key's index as the rows that are read afterwards.

    :param order: the key's order.
    """
    types = {column.name: column.type.name for column in table.columns}
    statement = sql.SQL("SELECT {} FROM {} WHERE {} AND {} ORDER BY {} OFFSET {} LIMIT 1").format(
        _key_texts(order, types),
        sql.Identifier(table.schema, table.name),
        condition(covered, order, types),
        _is_usual(order, types),
        in_order(order, types),
        sql.Literal(rows - 1),
    )
    found = connection.execute(statement).fetchone()
    return covered if found is None else KeyRange(covered.after, _decoded(order, found))


def rows_in(connection: Connection, table: DescribedTable, order: KeyOrder, covered: KeyRange) -> int:
    """
    Count the rows in a range of keys.

    :param order: the key's order.
    """
    types = {column.name: column.type.name for column in table.columns}
    statement = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(
        sql.Identifier(table.schema, table.name), condition(covered, order, types)
    )
    (rows,) = connection.execute(statement).fetchone() or (0,)
    return int(rows)


def _is_usual(order: KeyOrder, types: Mapping[str, str]) -> sql.Composable:
    """Return the condition that leaves out keys that nothing else orders; they came since the job's creation."""
    strange = is_strange(order.names, types)
    return sql.SQL("true") if strange is None else sql.SQL("NOT ({})").format(strange)


def _key_texts(order: KeyOrder, types: Mapping[str, str]) -> sql.Composable:
    return sql.SQL(", ").join(_key_text(name, types[name], number) for number, name in enumerate(order.names))


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
