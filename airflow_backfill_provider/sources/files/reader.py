"""Reads files on Spark, by the places of their rows."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.sources.by_key import column
from airflow_backfill_provider.sources.file_log.entries import FilePart
from airflow_backfill_provider.sources.file_log.reader import FileLogReader
from airflow_backfill_provider.sources.file_log.rows import (
    FileRows,
    key_fields,
    locations,
    with_places,
)
from airflow_backfill_provider.sources.files import FileFormat
from airflow_backfill_provider.sources.files.source import FilesSource
from airflow_backfill_provider.sources.files.texts import INDEX, PATH, read_lines
from airflow_backfill_provider.sources.formats.column_types import parsed_type, struct_type


class FilesReader(FileLogReader[FilesSource]):
    """
    Reads files of a folder.

    :param source: the folder.
    """

    def read(self, parts: Sequence[FilePart]) -> DataFrame:
        """Return the rows of parts of files."""
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
