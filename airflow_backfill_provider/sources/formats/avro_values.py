"""
Decodes values of Avro on Spark, exactly: a record that does not end where its schema ends is unreadable.

Spark's own function makes a struct of nulls of a record that it cannot read, and ignores bytes that follow the value.
Therefore the value is read as the first field of a record that has a second one, of which the byte is appended. The
value is read twice, with either of two bytes. Whatever follows the value in a record is read as the second field, so it
cannot agree with both.

The functions take and return expressions of Spark SQL as text; see :mod:`.spark`.
"""

from __future__ import annotations

import json
from typing import Any

from airflow_backfill_provider.core.sql import text_literal
from airflow_backfill_provider.sources.formats.column_types import ColumnType, ddl_type
from airflow_backfill_provider.sources.formats.json_values import field_of, map_literal
from airflow_backfill_provider.sources.formats.once import once

_VALUE, _END = "value", "end"

_TRUE, _FALSE = "X'01'", "X'00'"
"""How Avro writes the two values of the second field."""

_OPTIONS = {"mode": "PERMISSIVE", "datetimeRebaseMode": "CORRECTED"}


def avro_value(body: str, writer: str, reader: str, delta_type: ColumnType) -> str:
    """
    Return a struct with the value and whether it was read; the value is null if it was not.

    :param body: the bytes that Avro wrote.
    :param writer: the schema that they were written with.
    :param reader: the schema to read with.
    :param delta_type: the type of the value.
    """
    whole = _decoded(body, _TRUE, writer, _record(_field(_VALUE, reader), _END_FIELD))
    ends = _decoded(body, _FALSE, writer, _record(_END_FIELD))
    return once(
        f"named_struct('whole', {whole}, 'ends', {ends})",
        "both",
        lambda both: once(_agrees(both), "is_read", lambda is_read: _result(both, is_read, delta_type)),
    )


def _agrees(both: str) -> str:
    first, second = (field_of(field_of(both, reading), _END) for reading in ("whole", "ends"))
    return f"coalesce({first} AND NOT {second}, false)"


def _result(both: str, is_read: str, delta_type: ColumnType) -> str:
    value = f"CAST({field_of(field_of(both, 'whole'), _VALUE)} AS {ddl_type(delta_type)})"
    return f"named_struct('value', CASE WHEN {is_read} THEN {value} END, 'is_read', {is_read})"


def _decoded(body: str, end: str, writer: str, reader: str) -> str:
    written = text_literal(_record(_field(_VALUE, writer), _END_FIELD))
    return f"from_avro(concat({body}, {end}), {written}, {map_literal({**_OPTIONS, 'avroSchema': reader})})"


def _field(name: str, schema: str) -> dict[str, Any]:
    return {"name": name, "type": json.loads(schema)}


_END_FIELD = {"name": _END, "type": "boolean"}


def _record(*fields: dict[str, Any]) -> str:
    # Without a namespace, because types within would inherit it.
    return json.dumps({"type": "record", "name": "AirflowBackfillRecord", "fields": fields})
