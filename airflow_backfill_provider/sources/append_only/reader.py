"""Reads data files of a Delta table on Spark, by the places of their rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructField, StructType

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.lake.log.schemas import CHAR_OR_VARCHAR, char_length
from airflow_backfill_provider.sources.append_only.delta_scan import scanned_rows
from airflow_backfill_provider.sources.append_only.source import AppendOnlySource
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.sources.shared.file_log.entries import FilePart
from airflow_backfill_provider.sources.shared.file_log.reader import FileLogReader
from airflow_backfill_provider.sources.shared.file_log.rows import (
    FileRows,
    key_fields,
    locations,
    with_places,
)

_PHYSICAL_NAME = "delta.columnMapping.physicalName"


class AppendOnlyReader(FileLogReader[AppendOnlySource]):
    """
    Reads data files as the table's log named them when their rows were appended.

    They are read past Delta, which reads a version only as a whole. Compaction leaves them where they are until VACUUM
    removes them.

    :param source: the table.
    """

    def rows_to_verify(self, offset: Offset) -> DataFrame:
        """Return the rows up to an offset whose files are left, by Delta's own scan."""
        parts = self.parts_left(offset)
        return scanned_rows(self._spark, self._source.verified_files, parts) if parts else self.empty()

    def read(self, parts: Sequence[FilePart]) -> DataFrame:
        """Return the rows of parts of files."""
        fields = json.loads(self._source.schema_json)["fields"]
        logical = StructType.fromJson({"type": "struct", "fields": [_plain(field) for field in fields]})
        if not parts:
            return self._spark.createDataFrame([], StructType([*logical.fields, *key_fields()]))
        partitioned = set(self._source.partition_columns)
        stored = [field for field in fields if field["name"] not in partitioned]
        physical = StructType.fromJson({"type": "struct", "fields": [_physical(field) for field in stored]})
        rows = (
            self._spark.read.schema(physical)
            .option("recursiveFileLookup", "true")
            .parquet(*locations(self._source.location, parts))
        )
        types = {field.name: field.dataType for field in logical}
        columns = {
            field["name"]: column(_stored_name(field)).cast(types[field["name"]])
            if field["name"] not in partitioned
            else F.lit(None)
            for field in fields
        }
        found = FileRows(rows=rows, path=F.col("_metadata.file_path"), index=F.col("_metadata.row_index"))
        partitions = {
            field["name"]: StructField(_stored_name(field), types[field["name"]])
            for field in fields
            if field["name"] in partitioned
        }
        placed = with_places(self._spark, found, self._source.location, parts, columns, partitions)
        padded = {
            field["name"]: _padded(field) for field in fields if field["name"] in partitioned and char_length(field)
        }
        # Spark Connect refuses an empty list of columns.
        return placed.withColumns(padded) if padded else placed


def _stored_name(field: Mapping[str, Any]) -> str:
    return str(field.get("metadata", {}).get(_PHYSICAL_NAME, field["name"]))


def _physical(field: Mapping[str, Any]) -> dict[str, Any]:
    """Return a field under the name that it has in files."""
    return {
        "name": _stored_name(field),
        "type": _parts(field["type"], _physical),
        "nullable": True,
        "metadata": _char(field),
    }


def _plain(field: Mapping[str, Any]) -> dict[str, Any]:
    """Return a field without what affects no value."""
    return {"name": field["name"], "type": _parts(field["type"], _plain), "nullable": True, "metadata": {}}


def _char(field: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata by which Spark pads a column, also within nested ones."""
    metadata = field.get("metadata", {})
    return {name: metadata[name] for name in (CHAR_OR_VARCHAR,) if name in metadata}


def _padded(field: Mapping[str, Any]) -> Column:
    """Return a partition column of type CHAR(n), which Spark does not pad because it is in no file."""
    value, length = column(field["name"]), char_length(field)
    return F.when(F.length(value) < length, F.rpad(value, length, " ")).otherwise(value)


def _parts(kind: Any, of_field: Any) -> Any:
    """Return a type, with its fields replaced."""
    if isinstance(kind, str):
        return kind
    replaced = dict(kind)
    for name in ("elementType", "keyType", "valueType"):
        if name in replaced:
            replaced[name] = _parts(replaced[name], of_field)
    if "fields" in replaced:
        replaced["fields"] = [of_field(field) for field in replaced["fields"]]
    return replaced
