"""
Decodes values of Avro on Spark, exactly: a record that does not end where its schema ends is unreadable.

Spark's own function makes a struct of nulls of a record that it cannot read, and ignores bytes that follow the value.
Therefore the value is read as the first field of a record that has a second one, of which the byte is appended. The
value is read twice, with either of two bytes. Whatever follows the value in a record is read as the second field, so it
cannot agree with both.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.avro.functions import from_avro

from airflow_backfill_provider.sources.formats.once import once

_VALUE, _END = "value", "end"

_TRUE, _FALSE = b"\x01", b"\x00"
"""How Avro writes the two values of the second field."""

_OPTIONS = {"mode": "PERMISSIVE", "datetimeRebaseMode": "CORRECTED"}


def avro_value(body: Column, writer: str, reader: str, delta_type: Any) -> Column:
    """
    Return a struct with the value and whether it was read; the value is null if it was not.

    :param body: the bytes that Avro wrote.
    :param writer: the schema that they were written with.
    :param reader: the schema to read with.
    :param delta_type: the type of the value, as Spark knows it.
    """
    whole = _decoded(body, _TRUE, writer, _record(_field(_VALUE, reader), _END_FIELD))
    ends = _decoded(body, _FALSE, writer, _record(_END_FIELD))
    return once(
        F.struct(whole.alias("whole"), ends.alias("ends")),
        lambda both: once(_agrees(both), lambda is_read: _result(both, is_read, delta_type)),
    )


def _agrees(both: Column) -> Column:
    first = both.getField("whole").getField(_END)
    second = both.getField("ends").getField(_END)
    return F.coalesce(first & ~second, F.lit(False))


def _result(both: Column, is_read: Column, delta_type: Any) -> Column:
    value = both.getField("whole").getField(_VALUE).cast(delta_type)
    return F.struct(F.when(is_read, value).alias("value"), is_read.alias("is_read"))


def _decoded(body: Column, end: bytes, writer: str, reader: str) -> Column:
    written = _record(_field(_VALUE, writer), _END_FIELD)
    return from_avro(F.concat(body, F.lit(end)), written, {**_OPTIONS, "avroSchema": reader})


def _field(name: str, schema: str) -> dict[str, Any]:
    return {"name": name, "type": json.loads(schema)}


_END_FIELD = {"name": _END, "type": "boolean"}


def _record(*fields: dict[str, Any]) -> str:
    # Without a namespace, because types within would inherit it.
    return json.dumps({"type": "record", "name": "AirflowBackfillRecord", "fields": fields})
