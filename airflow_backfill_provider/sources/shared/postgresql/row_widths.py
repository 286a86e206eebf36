"""
How many rows a reader fetches at a time, so that they fit into memory.

The driver counts rows, and a row may have a thousand times as many bytes as another. So rows are read in classes of
their width, each with a number of rows of its own. The server knows a row's width without reading its long values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from airflow_backfill_provider.sources.shared.postgresql.catalog import DescribedColumn

USUAL_ROWS = 1_000
"""How many rows of a table without long values: a row has at most some kilobytes, or a few hundred if compressed."""

_SOME_BYTES, _MANY_BYTES = 16 << 10, 1 << 20
_SOME_ROWS, _FEW_ROWS = 16, 1
"""How many rows that are wider than the one, and than the other."""

_OF_TEXT = frozenset({"text", "varchar", "bpchar", "bytea"})
"""Types of which the server knows the length of a value without reading it."""

_MOST_COMPRESSED = 100
"""How much longer a value may be than it is stored."""


@dataclass(frozen=True, slots=True)
class WidthClass:
    """
    Rows of a table that are about as wide.

    :param condition: which rows they are.
    :param rows: how many of them are fetched at a time.
    """

    condition: sql.Composable
    rows: int


def width_classes(columns: Sequence[DescribedColumn], *, has_long_values: bool) -> Sequence[WidthClass]:
    """
    Return the classes in which rows are read; each row is in exactly one.

    :param columns: the columns that are read.
    :param has_long_values: whether some values of the table are stored out of line.
    """
    widths = [_width(column) for column in columns if column.may_be_toasted]
    if not has_long_values or not widths:
        return [WidthClass(sql.SQL("true"), USUAL_ROWS)]
    width = sql.SQL(" + ").join(widths)
    some, many = sql.Literal(_SOME_BYTES), sql.Literal(_MANY_BYTES)
    return [
        WidthClass(sql.SQL("{} <= {}").format(width, some), USUAL_ROWS),
        WidthClass(sql.SQL("{} > {} AND {} <= {}").format(width, some, width, many), _SOME_ROWS),
        WidthClass(sql.SQL("{} > {}").format(width, many), _FEW_ROWS),
    ]


def _width(column: DescribedColumn) -> sql.Composable:
    """Return about how many bytes a value has; never null."""
    name = sql.Identifier(column.name)
    if column.type.name in _OF_TEXT:
        return sql.SQL("coalesce(octet_length({}), 0)::bigint").format(name)
    stored = sql.SQL("coalesce(pg_column_size({}), 0)::bigint").format(name)
    factor = sql.SQL("CASE WHEN pg_column_compression({}) IS NULL THEN 1 ELSE {} END")
    return sql.SQL("{} * {}").format(stored, factor.format(name, sql.Literal(_MOST_COMPRESSED)))
