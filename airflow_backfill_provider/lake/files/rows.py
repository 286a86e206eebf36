"""Reads rows of a Delta table by conditions in SQL, without a JVM; skips files by their statistics."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder


def read_rows(table: DeltaTable, columns: str = "*", *, where: str = "", ending: str = "") -> pa.Table:
    """
    Return rows of an open table's version.

    :param columns: what to select, in SQL.
    :param where: a condition in SQL, empty for all rows; for text values see :func:`text_literal`.
    :param ending: what follows the condition, such as an order.
    """
    # Not an Arrow dataset: over deltalake's file system, its threads can abort the process at exit.
    condition = f" WHERE {where}" if where else ""
    query = f"SELECT {columns} FROM delta_table{condition} {ending}"  # noqa: S608 - the callers quote texts
    found = QueryBuilder().register("delta_table", table).execute(query)
    return pa.table(found.read_all())


def largest_group(table: DeltaTable, columns: Sequence[str]) -> int:
    """Return the number of rows of the largest group by some columns of an open table's version."""
    names = ", ".join(_quoted(name) for name in columns)
    groups = f"SELECT count(*) AS n FROM delta_table GROUP BY {names}"  # noqa: S608 - names are quoted
    found = QueryBuilder().register("delta_table", table).execute(f"SELECT max(n) AS n FROM ({groups})")  # noqa: S608
    return int(pa.table(found.read_all())["n"][0].as_py() or 0)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text_literal(value: str) -> str:
    """Return a text as a literal for a condition."""
    return "'" + value.replace("'", "''") + "'"
