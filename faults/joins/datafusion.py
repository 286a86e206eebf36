"""The query computed by DataFusion, which shares nothing with Spark and knows most of what the grammar uses."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from faults.joins.tables import JoinedTable
from faults.shapes.rows import Row, as_arrow
from faults.shapes.truth import values_of_arrow
from faults.table_histories import TableRows

_FUNCTION = re.compile(r"\buser\b")
"""The name of a table that is a function's, too."""

_LITERAL = re.compile(r"('[^']*')")
_STAR_AFTER_USING = re.compile(r"\.\*.*\bUSING\b", re.IGNORECASE | re.DOTALL)
_MICROSECONDS = pa.timestamp("us")


def computed(query: str, tables: Sequence[JoinedTable], rows: TableRows, folder: Path) -> list[Row] | None:
    """
    Return a query's result; ``None`` if DataFusion does not know all that the query uses.

    :param folder: a folder for its tables.
    """
    if any(column.type == "double" for table in tables for column in table.joinable):
        return None  # it does not take -0.0 and 0.0 for one value
    if _STAR_AFTER_USING.search(query):
        return None  # its star of a relation does not begin with the columns of USING
    engine = QueryBuilder()
    for table in tables:
        name = table.name.lower()
        engine.register(name, _delta_table(folder / name, as_arrow(table.columns, rows[table.name])))
    try:
        found = pa.table(engine.execute(translated(query)))
    except Exception:  # noqa: BLE001 - it has no type of its own
        return None
    columns = [column.cast(_MICROSECONDS) if pa.types.is_timestamp(column.type) else column for column in found.columns]
    return values_of_arrow(pa.table(columns, names=[str(number) for number in range(len(columns))]))


def translated(query: str) -> str:
    """Return a query with DataFusion's quotes, and with all names in lower case, in which it finds them."""
    pieces = _LITERAL.split(query.replace("`", '"'))
    return "".join(
        piece if number % 2 else _FUNCTION.sub('"user"', piece.lower()) for number, piece in enumerate(pieces)
    )


def _delta_table(path: Path, rows: pa.Table) -> DeltaTable:
    shutil.rmtree(path, ignore_errors=True)
    fields = [field.with_name(field.name.lower()).with_nullable(nullable=True) for field in rows.schema]
    write_deltalake(path, pa.Table.from_arrays(rows.columns, schema=pa.schema(fields)))
    return DeltaTable(path)
