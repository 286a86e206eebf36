"""
Decodes records on Spark, by resolved formats.

Every record becomes a value, an error, or neither: bytes that are null are a tombstone, which has no value. An error is
one line that says what is wrong, and never quotes the record.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import DataType, StructType

from airflow_backfill_provider.core.sql import quote
from airflow_backfill_provider.sources.formats import framing
from airflow_backfill_provider.sources.formats.avro_values import avro_value
from airflow_backfill_provider.sources.formats.column_types import ColumnType, parsed_type, struct_type
from airflow_backfill_provider.sources.formats.json_plain import is_plain, with_plain_json
from airflow_backfill_provider.sources.formats.json_values import json_value
from airflow_backfill_provider.sources.formats.once import once
from airflow_backfill_provider.sources.formats.protobuf_values import Writers, protobuf_value
from airflow_backfill_provider.sources.formats.resolved import (
    ResolvedAvro,
    ResolvedJson,
    ResolvedProtobuf,
    ResolvedRaw,
    ResolvedText,
)
from airflow_backfill_provider.sources.formats.valid_texts import has_invalid_text

OfExpressions = ResolvedRaw | ResolvedText | ResolvedJson | ResolvedAvro
"""The formats that Spark's expressions decode."""

NO_UTF8 = "is no text in UTF-8"
NO_AVRO = "is no value of its Avro schema"
INVALID_TEXT = "has a text that is no UTF-8"


def decoded(record: Column, resolved: OfExpressions, writers: Mapping[int, str] | None = None) -> Column:
    """
    Return a struct with the record's value and its error; at least one is null.

    :param record: the bytes.
    :param writers: for Avro with a registry, the schemas by the ids that records begin with; a record with another id
        is unreadable.
    """
    kind = parsed_type(resolved.delta_type)
    return once(
        record, lambda one: F.when(one.isNotNull(), _read(one, resolved, kind, writers or {})).otherwise(_result(kind))
    )


def with_decoded(
    rows: DataFrame, record: Column, name: str, resolved: OfExpressions, writers: Mapping[int, str] | None = None
) -> DataFrame:
    """
    Add a column with what :func:`decoded` returns, in the fastest way.

    :param name: the column's name.
    """
    if isinstance(resolved, ResolvedJson):
        kind = parsed_type(resolved.delta_type)
        if is_plain(_fields(kind)):
            return _with_plain_json(rows, record, name, kind)
    return rows.withColumn(name, decoded(record, resolved, writers))


def with_protobuf(
    rows: DataFrame, record: Column, name: str, resolved: ResolvedProtobuf, writers: Writers | None
) -> DataFrame:
    """
    Add a column with what :func:`decoded` returns for other formats.

    :param name: the column's name.
    :param writers: with a registry, its schemas by the ids that records begin with.
    """
    kind = _spark_type(parsed_type(resolved.delta_type))
    return rows.withColumn(name, protobuf_value(record, resolved.descriptors, resolved.message, kind, writers))


def _with_plain_json(rows: DataFrame, record: Column, name: str, kind: ColumnType) -> DataFrame:
    read = with_plain_json(rows, record.cast("string"), _fields(kind), name)
    found = F.col(quote(name))
    # Without a result there was no text to read.
    no_text = F.when(record.isNull(), _result(kind)).otherwise(_result(kind, error=F.lit(NO_UTF8)))
    return read.withColumn(name, F.when(found.isNull(), no_text).otherwise(found))


def writer_ids(frame: DataFrame, column: str) -> frozenset[int]:
    """
    Return the ids of the schemas that records begin with; one pass over the records.

    :param column: the column with the bytes; what is not framed by a registry has no id.
    """
    record = F.col(quote(column))
    found = frame.filter(framing.is_framed(record)).select(framing.schema_id(record).alias("id")).distinct()
    return frozenset(row["id"] for row in found.collect())


def _read(record: Column, resolved: OfExpressions, kind: ColumnType, writers: Mapping[int, str]) -> Column:
    match resolved:
        case ResolvedRaw():
            return _result(kind, value=record)
        case ResolvedText():
            text = record.cast("string")
            return _unless(~F.is_valid_utf8(text), NO_UTF8, kind, _result(kind, value=text))
        case ResolvedJson():
            text = record.cast("string")
            return _unless(~F.is_valid_utf8(text), NO_UTF8, kind, json_value(text, _fields(kind)))
        case ResolvedAvro(registry=None):
            return _avro(record, resolved.reader_schema, resolved, kind)
        case ResolvedAvro():
            framed = once(framing.schema_id(record), lambda found: _by_writer(record, found, resolved, kind, writers))
            return _unless(~framing.is_framed(record), framing.NOT_FRAMED, kind, framed)


def _by_writer(
    record: Column, schema_id: Column, resolved: ResolvedAvro, kind: ColumnType, writers: Mapping[int, str]
) -> Column:
    result = _result(kind, error=F.concat(F.lit("schema "), schema_id.cast("string"), F.lit(" is unknown")))
    for number, writer in writers.items():
        read = _avro(framing.body(record), writer, resolved, kind)
        result = F.when(schema_id == number, read).otherwise(result)
    return result


def _avro(body: Column, writer: str, resolved: ResolvedAvro, kind: ColumnType) -> Column:
    def checked(read: Column) -> Column:
        value = read.getField("value")
        valid = _unless(has_invalid_text(value, kind), INVALID_TEXT, kind, _result(kind, value=value))
        return _unless(~read.getField("is_read"), NO_AVRO, kind, valid)

    return once(avro_value(body, writer, resolved.reader_schema, _spark_type(kind)), checked)


def _unless(wrong: Column, error: str, kind: ColumnType, otherwise: Column) -> Column:
    return F.when(wrong, _result(kind, error=F.lit(error))).otherwise(otherwise)


def _result(kind: ColumnType, *, value: Column | None = None, error: Column | None = None) -> Column:
    missing = F.lit(None)
    return F.struct(
        (missing if value is None else value).cast(_spark_type(kind)).alias("value"),
        (missing if error is None else error).cast("string").alias("error"),
    )


def _fields(kind: ColumnType) -> dict[str, object]:
    if isinstance(kind, str):
        raise TypeError(f"{kind} is no type of a JSON object")
    return kind


def _spark_type(kind: ColumnType) -> DataType:
    return StructType.fromJson(struct_type([("value", kind)]))["value"].dataType
