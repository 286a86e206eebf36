"""
Simple changes of a table, committed by deltalake, which needs a fraction of the time that Spark takes.

Taken is only what means the same to both: columns, whole numbers and texts, compared and computed with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import sqlglot
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from sqlglot import exp

_SAME_TO_BOTH = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean, exp.Paren, exp.Neg, exp.Upper, exp.Case),
    *(exp.Add, exp.Sub, exp.Mul, exp.Mod),
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Is, exp.And, exp.Or, exp.Not),
)
_PLAIN_TYPES = (
    *(pa.types.is_integer, pa.types.is_float64, pa.types.is_decimal128, pa.types.is_date32),
    *(pa.types.is_string, pa.types.is_boolean),
)
_FEATURES = {"appendOnly", "invariants", "changeDataFeed", "timestampNtz"}


def is_changed(statement: str, location: str, storage_options: Mapping[str, str] | None = None) -> bool:
    """
    Change a table by deltalake, if it can; return whether it did.

    :param statement: a statement in Spark's SQL; the name of its table does not matter.
    :param location: where the table lies.
    """
    parsed = sqlglot.parse_one(statement, read="spark")
    if not isinstance(parsed, exp.Insert | exp.Update | exp.Delete):
        return False
    table = DeltaTable(location, storage_options=dict(storage_options) if storage_options else None)
    schema = pa.schema(table.schema())
    if not _is_plain(table, schema):
        return False
    if isinstance(parsed, exp.Insert):
        rows = _inserted(parsed, schema)
        if rows is not None:
            write_deltalake(table, rows, mode="append")
        return rows is not None
    if table.metadata().configuration.get("delta.enableChangeDataFeed") != "true":
        # Then a reader finds out from the files what changed, so Spark writes them.
        return False
    where = parsed.args.get("where")
    condition = where.this if where else exp.true()
    assigned = {found.this.name: found.expression for found in parsed.expressions}
    if not all(map(_means_the_same, (condition, *assigned.values()))):
        return False
    if isinstance(parsed, exp.Update):
        table.update(updates={name: value.sql() for name, value in assigned.items()}, predicate=condition.sql())
    else:
        table.delete(condition.sql())
    return True


def _is_plain(table: DeltaTable, schema: pa.Schema) -> bool:
    """Return whether deltalake writes to a table as Spark does."""
    return (
        {*(table.protocol().writer_features or ())} <= _FEATURES
        and not table.metadata().partition_columns
        and not any(field.metadata for field in schema)
        and all(map(_is_plain_type, schema.types))
    )


def _is_plain_type(kind: pa.DataType) -> bool:
    is_local_time = pa.types.is_timestamp(kind) and kind.tz is None
    return is_local_time or any(is_kind(kind) for is_kind in _PLAIN_TYPES)


def _means_the_same(expression: exp.Expression, *more: type[exp.Expression]) -> bool:
    return all(
        isinstance(part, (*_SAME_TO_BOTH, *more)) or (isinstance(part, exp.If) and isinstance(part.parent, exp.Case))
        for part in expression.walk()
    )


def _inserted(parsed: exp.Insert, schema: pa.Schema) -> pa.Table | None:
    """Return the rows that a statement inserts; ``None`` if only Spark knows them."""
    given = parsed.expression
    if not isinstance(parsed.this, exp.Table) or parsed.args.get("overwrite"):
        return None
    if isinstance(given, exp.Values):
        rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in given.expressions]
        if not all(
            isinstance(part, exp.Literal | exp.Null | exp.Neg) for row in rows for cell in row for part in cell.walk()
        ):
            return None
        columns: list[Any] = [list(map(_value, column)) for column in zip(*rows, strict=True)]
    else:
        selected = _selected_of_range(given)
        if selected is None:
            return None
        columns = pa.table(QueryBuilder().execute(selected).read_all()).columns
    arrays = [
        column.cast(field.type) if isinstance(column, pa.ChunkedArray) else pa.array(column, field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.table(arrays, schema=schema)


def _value(cell: exp.Expression) -> Any:
    return None if isinstance(cell, exp.Null) else cell.to_py()


def _selected_of_range(given: exp.Expression) -> str | None:
    """Return a query over ``range(…)`` in the words of deltalake's engine."""
    tables = list(given.find_all(exp.Table))
    if not isinstance(given, exp.Select) or len(tables) != 1 or given.args.get("where"):
        return None
    called = tables[0].this
    if not isinstance(called, exp.Anonymous) or called.name.lower() != "range":
        return None
    # Nothing here is null, of which the two make different texts.
    if not all(_means_the_same(column, exp.Concat) for column in given.expressions):
        return None
    first, end = [0, *(int(bound.name) for bound in called.expressions)][-2:]
    columns = ", ".join(f"{column.sql()} AS c{number}" for number, column in enumerate(given.expressions))
    return f"SELECT {columns} FROM (SELECT value AS id FROM generate_series({first}, {end - 1})) AS numbers"
