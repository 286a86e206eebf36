"""Reads files on Spark, by the places of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.offset import Offset
from airflow_backfill_provider.core.splits import SplitRange
from airflow_backfill_provider.sources.by_key import column
from airflow_backfill_provider.sources.file_log.entries import FilePart, merged
from airflow_backfill_provider.sources.file_log.rows import (
    FileRows,
    as_inserts,
    is_among,
    key_fields,
    locations,
    with_places,
)
from airflow_backfill_provider.sources.files import FileFormat
from airflow_backfill_provider.sources.files.source import FilesSource
from airflow_backfill_provider.sources.files.texts import INDEX, PATH, read_lines
from airflow_backfill_provider.sources.formats.column_types import parsed_type, struct_type
from airflow_backfill_provider.sources.reader import SourceReader
from airflow_backfill_provider.sources.split_offsets import window


class FilesReader(SourceReader):
    """
    Reads files of a folder.

    :param source: the folder.
    """

    keys_are_unique: ClassVar[bool] = True
    appends_only: ClassVar[bool] = True

    def __init__(self, spark: SparkSession, source: FilesSource) -> None:
        self._spark = spark
        self._source = source

    def rows(self, offset: Offset) -> DataFrame:
        """Return the rows up to an offset whose files are left as they were."""
        parts = self._source.parts_up_to(offset)
        gone = set(self._source.gone_among(parts))
        return self._read([part for part in parts if part not in gone])

    def rows_of(self, ranges: Sequence[SplitRange]) -> DataFrame:
        """Return the rows at some places."""
        self._source.splits.require_kept(ranges)
        return self._read(self._source.parts(ranges))

    def is_left(self, key: Sequence[Column]) -> Column | None:
        """Return the condition that the file of a row is left: files may be removed after they were read."""
        source = self._source
        gone = source.gone_among(source.parts_up_to(source.latest()))
        return ~is_among(key, merged(gone)) if gone else None

    def empty(self) -> DataFrame:
        """Return all columns, without rows."""
        return self._read([])

    def changes(self, after: Offset, up_to: Offset) -> DataFrame:
        """Return the rows of the files that were added in ``(after, up_to]``."""
        return as_inserts(self.rows_of([places for places in window(after, up_to) if places.size]), up_to)

    def _read(self, parts: Sequence[FilePart]) -> DataFrame:
        upstream = self._source.upstream
        types = upstream.column_types
        schema = StructType.fromJson(struct_type([(name, parsed_type(kind)) for name, kind in types.items()]))
        if not parts:
            return self._spark.createDataFrame([], StructType([*schema.fields, *key_fields()]))
        found = locations(upstream.path, parts)
        reader = self._spark.read.option("recursiveFileLookup", "true")
        if upstream.format is FileFormat.PARQUET:
            rows = reader.schema(schema).parquet(*found)
            of_files = FileRows(rows=rows, path=F.col("_metadata.file_path"), index=F.col("_metadata.row_index"))
            columns = {name: column(name) for name in types}
        else:
            rows, columns = read_lines(reader.text(found, wholetext=True), upstream)
            of_files = FileRows(rows=rows, path=F.col(PATH), index=F.col(INDEX))
        return with_places(self._spark, of_files, upstream.path, parts, columns)
