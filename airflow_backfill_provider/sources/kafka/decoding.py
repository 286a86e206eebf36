"""Decodes keys and values of records on Spark, and tells which ones cannot be read."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.sources.kafka.columns import KEY, NAMES, TIMESTAMP, VALUE, RecordFormats
from airflow_backfill_provider.sources.shared.formats.resolved import (
    ResolvedAvro,
    ResolvedJson,
    ResolvedProtobuf,
    ResolvedRaw,
    ResolvedText,
)
from airflow_backfill_provider.sources.shared.formats.spark import with_decoded, with_protobuf, writer_ids
from airflow_backfill_provider.sources.shared.formats.writers import avro_writers, protobuf_writers
from airflow_backfill_provider.sources.shared.formats.years import is_outside
from airflow_backfill_provider.sources.shared.refusals import unreadable_record

RAW_SCHEMA = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, topic string, partition int, "
    "offset bigint, timestamp timestamp"
)
"""The columns of records before they are decoded."""

REASON = "reason"
"""The column that says why a record cannot be read."""

NO_DATE = "lies beyond the year 9999; its producer took another unit than milliseconds"
TOO_EARLY = "lies before the year 1; its producer took another unit than milliseconds"

_Decoded = ResolvedText | ResolvedJson | ResolvedAvro | ResolvedProtobuf

_DECODED = {KEY: "__decoded_key", VALUE: "__decoded_value"}


@dataclass(frozen=True, slots=True)
class DecodedRecords:
    """
    Records with what was decoded beside the bytes.

    :param rows: the columns of records as bytes, and for each decoded one a struct of its value and its error.
    :param decoded: the columns that are decoded; the others stay bytes.
    """

    rows: DataFrame
    decoded: tuple[str, ...]

    @property
    def checked(self) -> tuple[str, ...]:
        """The columns that may have an error."""
        return (*self.decoded, TIMESTAMP)

    def value(self, name: str) -> Column:
        """Return the decoded value of a column; null if it cannot be read."""
        if name == TIMESTAMP:
            return F.when(self.error(name).isNull(), F.col(name))
        return F.col(_DECODED[name]).getField("value")

    def error(self, name: str) -> Column:
        """Return why a column cannot be read; null if it can."""
        if name == TIMESTAMP:
            problem = F.when(F.unix_micros(F.col(name)) > 0, F.lit(NO_DATE)).otherwise(F.lit(TOO_EARLY))
            return F.when(F.expr(is_outside(quote(name), "timestamp")), problem)
        return F.col(_DECODED[name]).getField("error")


def decoded_records(raw: DataFrame, formats: RecordFormats) -> DecodedRecords:
    """
    Decode keys and values by their formats.

    :param raw: the records as bytes. If a registry has their schemas, they are read once more to learn their ids.
    """
    both = ((KEY, formats.key), (VALUE, formats.value))
    found = {name: kind for name, kind in both if not isinstance(kind, ResolvedRaw)}
    rows = raw
    for name, kind in found.items():
        rows = _with_decoded(rows, name, kind, raw, formats)
    return DecodedRecords(rows, tuple(found))


def failing_rows(found: DecodedRecords) -> DataFrame:
    """Return all records; to use a value or a key that cannot be read is an error."""
    where = F.concat(
        F.col("topic"),
        F.lit(", partition "),
        F.col("partition").cast("string"),
        F.lit(", offset "),
        F.col("offset").cast("string"),
        F.lit(": the "),
    )

    def or_failure(name: str) -> Column:
        error = found.error(name)
        failure = unreadable_record(F.concat(where, F.lit(name)), error)
        return F.when(error.isNotNull(), failure).otherwise(found.value(name)).alias(name)

    return found.rows.select(*(or_failure(name) if name in found.checked else F.col(name) for name in NAMES))


def readable_rows(found: DecodedRecords) -> DataFrame:
    """Return the records of which key and value can be read."""
    rows = found.rows
    for name in found.checked:
        rows = rows.filter(found.error(name).isNull())
    return rows.select(*(found.value(name).alias(name) if name in found.checked else F.col(name) for name in NAMES))


def unreadable_rows(found: DecodedRecords) -> DataFrame:
    """Return the other records as bytes, with the reason."""
    errors = [F.concat(F.lit(f"the {name} "), found.error(name)) for name in found.checked]
    # Other programs cannot read a table with such a timestamp.
    raw = [found.value(name).alias(name) if name == TIMESTAMP else F.col(name) for name in NAMES]
    return found.rows.select(*raw, F.concat_ws("; ", *errors).alias(REASON)).filter(F.col(REASON) != "")


def _with_decoded(rows: DataFrame, name: str, kind: _Decoded, raw: DataFrame, formats: RecordFormats) -> DataFrame:
    if isinstance(kind, ResolvedProtobuf):
        messages = protobuf_writers(formats.registry(kind.registry), writer_ids(raw, name)) if kind.registry else None
        return with_protobuf(rows, name, _DECODED[name], kind, messages)
    writers = None
    if isinstance(kind, ResolvedAvro) and kind.registry is not None:
        writers = avro_writers(formats.registry(kind.registry), writer_ids(raw, name))
    return with_decoded(rows, name, _DECODED[name], kind, writers)
