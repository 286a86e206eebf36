"""
Ranges of keys as conditions in PostgreSQL's SQL.

Keys are compared in the same order as everywhere else, and so that an index on them is used.
"""

from __future__ import annotations

from collections.abc import Mapping

from psycopg import sql

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.scan.keys import KeyField, KeyKind, KeyOrder, KeyRange, KeyValue, Position

_CASTS = {
    "bool": "boolean",
    "bytea": "bytea",
    "date": "date",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "numeric": "numeric",
    "oid": "oid",
    "text": "text",
    "timestamp": "timestamp",
    "timestamptz": "timestamptz",
    "uuid": "uuid",
    "varchar": "text",
}
"""The types that a key may have → the type of a literal to compare with."""

_COLLATED = frozenset({"text", "varchar"})

_ORDERED_AS_TEXT = _COLLATED | {"uuid"}
"""The types whose order is that of their texts."""


def require_key_type(column: str, type_name: str, delta_type: str) -> None:
    """
    Refuse a column that PostgreSQL, Spark and Python do not order alike.

    :param type_name: the name of its type in PostgreSQL.
    :param delta_type: the type that it is read as.
    :raises InvalidJobError: with the types that are allowed, or why this one is read as text.
    """
    if type_name not in _CASTS:
        raise InvalidJobError(
            f"upstream.key: column {column!r} has type {type_name}, which cannot be a key; allowed are "
            f"{', '.join(sorted(_CASTS))}"
        )
    if delta_type == "string" and type_name not in _ORDERED_AS_TEXT:
        raise InvalidJobError(
            f"upstream.key: column {column!r} has type {type_name} and is read as text, which is ordered differently; "
            "leave it out of upstream.postgres.as_text, and declare a numeric with at most 38 digits"
        )


def condition(covered: KeyRange, order: KeyOrder, types: Mapping[str, str]) -> sql.Composable:
    """
    Return the condition that a key lies in a range.

    :param order: the key's order.
    :param types: key column → the name of its type in PostgreSQL.
    """
    parts = []
    if covered.after is not None:
        parts.append(_beyond(covered.after, order, types, ">", ">"))
    if covered.up_to is not None:
        parts.append(_beyond(covered.up_to, order, types, "<", "<="))
    return sql.SQL(" AND ").join(parts) if parts else sql.SQL("true")


def in_order(order: KeyOrder, types: Mapping[str, str]) -> sql.Composable:
    """Return the expressions for ``ORDER BY``."""
    return sql.SQL(", ").join(
        sql.SQL("{} {}").format(_column(field, types), sql.SQL("DESC" if field.descending else "ASC"))
        for field in order.fields
    )


def _beyond(position: Position, order: KeyOrder, types: Mapping[str, str], within: str, last: str) -> sql.Composable:
    """
    Compare the key with a position.

    Columns in one direction are compared as one row, because an index serves that. Others are compared column by
    column; then the condition on the first column is added, for the index.
    """
    fields = order.fields[: len(position)]
    if any(value is None for value in position):
        raise InvalidJobError("upstream.key: a position has a null, but the columns of a PostgreSQL key are never null")
    if len({field.descending for field in fields}) == 1:
        operator = _flipped(last, fields[0])
        columns = sql.SQL(", ").join(_column(field, types) for field in fields)
        values = sql.SQL(", ").join(
            _literal(field, value, types) for field, value in zip(fields, position, strict=True)
        )
        return sql.SQL("({}) {} ({})").format(columns, sql.SQL(operator), values)
    alternatives: list[sql.Composable] = []
    equal: list[sql.Composable] = []
    for index, (field, value) in enumerate(zip(fields, position, strict=True)):
        operator = _flipped(last if index == len(fields) - 1 else within, field)
        compared = sql.SQL("{} {} {}").format(_column(field, types), sql.SQL(operator), _literal(field, value, types))
        alternatives.append(sql.SQL(" AND ").join([*equal, compared]))
        equal.append(sql.SQL("{} = {}").format(_column(field, types), _literal(field, value, types)))
    leading = sql.SQL("{} {} {}").format(
        _column(fields[0], types),
        sql.SQL(_flipped(f"{within}=", fields[0])),
        _literal(fields[0], position[0], types),
    )
    return sql.SQL("({} AND ({}))").format(leading, sql.SQL(" OR ").join(alternatives))


def _flipped(operator: str, field: KeyField) -> str:
    """Return an operator for the column's direction."""
    if not field.descending:
        return operator
    return operator.replace("<", "≥").replace(">", "<").replace("≥", ">")


def _column(field: KeyField, types: Mapping[str, str]) -> sql.Composable:
    # Bytes in the order of a collation are not those of UTF-8, and Spark and Python compare bytes.
    collated = sql.SQL(' COLLATE "C"') if types[field.name] in _COLLATED else sql.SQL("")
    return sql.SQL("{}{}").format(sql.Identifier(field.name), collated)


def _literal(field: KeyField, value: KeyValue | None, types: Mapping[str, str]) -> sql.Composable:
    text = field.encode(value)
    if field.kind is KeyKind.BINARY:
        text = f"\\x{text}"
    # The prefix E'' of an escaped literal is cast like any other.
    return sql.SQL("{}::{}").format(sql.Literal(text), sql.SQL(_CASTS[types[field.name]]))
