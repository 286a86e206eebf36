"""
Keys that PostgreSQL has, and nothing else orders: infinite ones, NaN, years before 1 and after 9999.

A table with such a key is refused when its job is created. If a row with one comes later, the epoch fails with its
column's name, as long as the row is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg import sql

from airflow_backfill_provider.core.errors import UnsupportedValueError
from airflow_backfill_provider.sources.shared.postgresql.catalog import Connection, DescribedTable

_OF_TIME = "{0} < '0001-01-01' OR {0} >= '10000-01-01'"

_STRANGE = {
    "date": _OF_TIME,
    "timestamp": _OF_TIME,
    "timestamptz": _OF_TIME,
    # Of numbers, NaN is the largest.
    "numeric": "{0} = '-Infinity' OR {0} >= 'Infinity'",
}
"""The types with such values → the condition for them."""


def is_strange(names: Sequence[str], types: Mapping[str, str]) -> sql.Composable | None:
    """
    Return the condition that a key has such a value; ``None`` if it cannot have one.

    :param names: the key columns.
    :param types: key column → the name of its type in PostgreSQL.
    """
    found = [sql.SQL(_STRANGE[types[name]]).format(sql.Identifier(name)) for name in names if types[name] in _STRANGE]
    return sql.SQL(" OR ").join(found) if found else None


def require_usual_keys(connection: Connection, location: str, table: DescribedTable, key: Sequence[str]) -> None:
    """
    Refuse a table with such a key.

    :param location: the table's location, for the message.
    :raises UnsupportedValueError: with the query that finds the rows.
    """
    condition = is_strange(key, {column.name: column.type.name for column in table.columns})
    if condition is None:
        return
    name = sql.Identifier(table.schema, table.name)
    found = connection.execute(sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE {})").format(name, condition)).fetchone()
    if found and found[0]:
        rows = sql.SQL("SELECT * FROM {} WHERE {}").format(name, condition).as_string(connection)
        raise UnsupportedValueError(
            f"upstream.key: {location} has rows whose key is infinite, NaN, or in a year before 1 or after 9999, and "
            f"such keys are not ordered alike everywhere; correct or delete these rows, or choose another key: {rows}"
        )
