"""
Decodes values of Avro on Spark, exactly: a record that does not end where its schema ends is unreadable.

Spark's own function makes a struct of nulls of a record that it cannot read, and ignores bytes that follow the value.
Therefore the value is read as the first field of a record that has a second one, of which the byte is appended. The
value is read twice, with either of two bytes. Whatever follows the value in a record is read as the second field, so it
cannot agree with both.

A number that may have become another one while it was read is unreadable, too; see :mod:`.avro_agreement`.

The functions take and return expressions of Spark SQL as text; see :mod:`.spark`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow_backfill_provider.core.job.sql import text_literal
from airflow_backfill_provider.sources.shared.formats.avro_agreement import Agreement, agreement, with_more_digits
from airflow_backfill_provider.sources.shared.formats.column_types import ColumnType, ddl_type
from airflow_backfill_provider.sources.shared.formats.json_values import field_of, map_literal
from airflow_backfill_provider.sources.shared.formats.once import once
from airflow_backfill_provider.sources.shared.formats.parts import Path, has_part

NO_AVRO = "is no value of its Avro schema"
INEXACT = "has a whole number with more digits than a floating-point number holds"

_VALUE, _END = "value", "end"

_TRUE, _FALSE = "X'01'", "X'00'"
"""How Avro writes the two values of the second field."""

_OPTIONS = {"mode": "PERMISSIVE", "datetimeRebaseMode": "CORRECTED"}


def avro_value(body: str, writer: str, reader: str, delta_type: ColumnType) -> str:
    """
    Return a struct with the value and the error; the value is null if there is an error.

    :param body: the bytes that Avro wrote.
    :param writer: the schema that they were written with.
    :param reader: the schema to read with.
    :param delta_type: the type of the value.
    """
    known = agreement(writer, reader)
    if known.conflict:
        return f"named_struct('value', CAST(NULL AS {ddl_type(delta_type)}), 'error', {text_literal(known.conflict)})"
    whole = _decoded(body, _TRUE, writer, _record(_field(_VALUE, with_more_digits(reader)), _END_FIELD))
    ends = _decoded(body, _FALSE, writer, _record(_END_FIELD))
    return once(
        f"named_struct('whole', {whole}, 'ends', {ends})",
        "both",
        lambda both: once(_error(both, delta_type, known), "error", lambda error: _result(both, error, delta_type)),
    )


def _error(both: str, delta_type: ColumnType, known: Agreement) -> str:
    first, second = (field_of(field_of(both, reading), _END) for reading in ("whole", "ends"))

    value = field_of(field_of(both, "whole"), _VALUE)
    has_long, has_inexact = (_has_beyond(value, delta_type, limits) for limits in (known.digits, known.promoted))
    return (
        f"CASE WHEN NOT coalesce({first} AND NOT {second}, false) OR {has_long} THEN {text_literal(NO_AVRO)}"
        f" WHEN {has_inexact} THEN {text_literal(INEXACT)} END"
    )


def _has_beyond(value: str, delta_type: ColumnType, limits: Mapping[Path, str]) -> str:
    def is_beyond(number: str, _kind: str, path: Path) -> str:
        # Exact: a decimal with a limit has at most 19 digits here. Spark rounds abs() if it has more than 34.
        return f"abs({number}) >= {limits[path]}" if path in limits else ""

    return has_part(value, delta_type, is_beyond)


def _result(both: str, error: str, delta_type: ColumnType) -> str:
    value = f"CAST({field_of(field_of(both, 'whole'), _VALUE)} AS {ddl_type(delta_type)})"
    return f"named_struct('value', CASE WHEN {error} IS NULL THEN {value} END, 'error', {error})"


def _decoded(body: str, end: str, writer: str, reader: str) -> str:
    written = text_literal(_record(_field(_VALUE, writer), _END_FIELD))
    return f"from_avro(concat({body}, {end}), {written}, {map_literal({**_OPTIONS, 'avroSchema': reader})})"


def _field(name: str, schema: str) -> dict[str, Any]:
    return {"name": name, "type": json.loads(schema)}


_END_FIELD = {"name": _END, "type": "boolean"}


def _record(*fields: dict[str, Any]) -> str:
    # Without a namespace, because types within would inherit it.
    return json.dumps({"type": "record", "name": "AirflowBackfillRecord", "fields": fields})
