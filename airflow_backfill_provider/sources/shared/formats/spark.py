"""
Decodes records on Spark, by resolved formats.

Every record becomes a value, an error, or neither: bytes that are null are a tombstone, which has no value. An error is
one line that says what is wrong, and never quotes the record.

Expressions that grow with a schema are texts of SQL, which Spark parses. A client of a Spark Connect server sends other
expressions as trees, and a tree may have a hundred levels only.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import DataType, StructType

from airflow_backfill_provider.core.job.sql import quote, text_literal
from airflow_backfill_provider.sources.shared.formats import framing
from airflow_backfill_provider.sources.shared.formats.avro_values import avro_value
from airflow_backfill_provider.sources.shared.formats.column_types import ColumnType, ddl_type, parsed_type, struct_type
from airflow_backfill_provider.sources.shared.formats.json_plain import is_plain, with_plain_json
from airflow_backfill_provider.sources.shared.formats.json_values import json_value
from airflow_backfill_provider.sources.shared.formats.once import once
from airflow_backfill_provider.sources.shared.formats.portable_values import problem_elsewhere
from airflow_backfill_provider.sources.shared.formats.protobuf_values import Writers, protobuf_value
from airflow_backfill_provider.sources.shared.formats.resolved import (
    ResolvedAvro,
    ResolvedJson,
    ResolvedProtobuf,
    ResolvedRaw,
    ResolvedText,
)

OfExpressions = ResolvedRaw | ResolvedText | ResolvedJson | ResolvedAvro
"""The formats that Spark's expressions decode."""

NO_UTF8 = "is no text in UTF-8"


def decoded(record: str, resolved: OfExpressions, writers: Mapping[int, str] | None = None) -> Column:
    """
    Return a struct with the record's value and its error; at least one is null.

    :param record: the name of the column with the bytes.
    :param writers: for Avro with a registry, the schemas by the ids that records begin with; a record with another id
        is unreadable.
    """
    kind = parsed_type(resolved.delta_type)
    read = once(quote(record), "record", lambda one: _read(one, resolved, kind, writers or {}))
    found = f"CASE WHEN {quote(record)} IS NOT NULL THEN {read} END"
    # The fields of nothing are null, and have their types.
    return F.expr(once(found, "found", lambda found: f"named_struct('value', {found}.value, 'error', {found}.error)"))


def with_decoded(
    rows: DataFrame, record: str, name: str, resolved: OfExpressions, writers: Mapping[int, str] | None = None
) -> DataFrame:
    """
    Add a column with what :func:`decoded` returns, in the fastest way.

    :param record: the name of the column with the bytes.
    :param name: the column's name.
    """
    if isinstance(resolved, ResolvedJson):
        kind = parsed_type(resolved.delta_type)
        if is_plain(_fields(kind)):
            return _with_plain_json(rows, record, name, kind)
    return rows.withColumn(name, decoded(record, resolved, writers))


def with_protobuf(
    rows: DataFrame, record: str, name: str, resolved: ResolvedProtobuf, writers: Writers | None
) -> DataFrame:
    """
    Add a column with what :func:`decoded` returns for other formats.

    :param record: the name of the column with the bytes.
    :param name: the column's name.
    :param writers: with a registry, its schemas by the ids that records begin with.
    """
    kind = _spark_type(parsed_type(resolved.delta_type))
    value = protobuf_value(F.col(quote(record)), resolved.descriptors, resolved.message, kind, writers)
    return rows.withColumn(name, value)


def _with_plain_json(rows: DataFrame, record: str, name: str, kind: ColumnType) -> DataFrame:
    read = with_plain_json(rows, f"CAST({quote(record)} AS STRING)", _fields(kind), name)
    found = quote(name)
    # Without a result there was no text to read.
    error = (
        f"CASE WHEN {found} IS NULL AND {quote(record)} IS NOT NULL THEN {text_literal(NO_UTF8)} ELSE {found}.error END"
    )
    return read.withColumn(name, F.expr(f"named_struct('value', {found}.value, 'error', {error})"))


def writer_ids(frame: DataFrame, column: str) -> frozenset[int]:
    """
    Return the ids of the schemas that records begin with; one pass over the records.

    :param column: the column with the bytes; what is not framed by a registry has no id.
    """
    record = quote(column)
    found = frame.filter(framing.is_framed(record)).select(F.expr(framing.schema_id(record)).alias("id")).distinct()
    return frozenset(row["id"] for row in found.collect())


# ------------------------------------------------------------------------------------------------- expressions as text


def _read(record: str, resolved: OfExpressions, kind: ColumnType, writers: Mapping[int, str]) -> str:
    match resolved:
        case ResolvedRaw():
            return _result(record)
        case ResolvedText():
            text = f"CAST({record} AS STRING)"
            return _unless(f"NOT is_valid_utf8({text})", NO_UTF8, _result(text))
        case ResolvedJson():
            text = f"CAST({record} AS STRING)"
            return _unless(f"NOT is_valid_utf8({text})", NO_UTF8, json_value(text, _fields(kind)))
        case ResolvedAvro(registry=None):
            return _avro(record, resolved.reader_schema, resolved, kind)
        case ResolvedAvro():
            framed = once(
                framing.schema_id(record), "id", lambda found: _by_writer(record, found, resolved, kind, writers)
            )
            return _unless(f"NOT {framing.is_framed(record)}", framing.NOT_FRAMED, framed)


def _by_writer(
    record: str, schema_id: str, resolved: ResolvedAvro, kind: ColumnType, writers: Mapping[int, str]
) -> str:
    body = framing.body(record)
    known = (f"WHEN {schema_id} = {number} THEN {_avro(body, writers[number], resolved, kind)}" for number in writers)
    # Without a known writer, nothing else gives the value its type.
    nothing = f"CAST(NULL AS {ddl_type(kind)})"
    unknown = f"named_struct('value', {nothing}, 'error', concat('schema ', {schema_id}, ' is unknown'))"
    return f"CASE {' '.join(known)} ELSE {unknown} END" if writers else unknown


def _avro(body: str, writer: str, resolved: ResolvedAvro, kind: ColumnType) -> str:
    def checked(read: str) -> str:
        value = f"{read}.value"
        return once(
            f"coalesce({read}.error, {problem_elsewhere(value, kind)})",
            "error",
            lambda error: f"CASE WHEN {error} IS NOT NULL THEN {_error(error)} ELSE {_result(value)} END",
        )

    return once(avro_value(body, writer, resolved.reader_schema, kind), "read", checked)


def _unless(wrong: str, error: str, otherwise: str) -> str:
    return f"CASE WHEN {wrong} THEN {_error(text_literal(error))} ELSE {otherwise} END"


def _result(value: str) -> str:
    return f"named_struct('value', {value}, 'error', CAST(NULL AS STRING))"


def _error(error: str) -> str:
    return f"named_struct('value', NULL, 'error', {error})"


def _fields(kind: ColumnType) -> dict[str, object]:
    if isinstance(kind, str):
        raise TypeError(f"{kind} is no type of a JSON object")
    return kind


def _spark_type(kind: ColumnType) -> DataType:
    return StructType.fromJson(struct_type([("value", kind)]))["value"].dataType
