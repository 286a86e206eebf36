"""Reads files on Spark, by the places of their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import LongType, StringType, StructField, StructType

from airflow_backfill_provider.core.job.sql import quote, text_literal
from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.sources.files.csv_values import csv_value
from airflow_backfill_provider.sources.files.definition import UNREADABLE_LINE, FileFormat
from airflow_backfill_provider.sources.files.details import FileDetails, partition_field
from airflow_backfill_provider.sources.files.read_values import ReadRows, ReadValue, misfit
from airflow_backfill_provider.sources.files.source import FilesSource
from airflow_backfill_provider.sources.files.texts import read_lines
from airflow_backfill_provider.sources.shared.balanced import union_of
from airflow_backfill_provider.sources.shared.file_log.definition import PLACE, SPLIT
from airflow_backfill_provider.sources.shared.file_log.entries import FilePart
from airflow_backfill_provider.sources.shared.file_log.reader import FileLogReader
from airflow_backfill_provider.sources.shared.file_log.rows import (
    DETAILS,
    FileRows,
    key_fields,
    locations,
    with_places,
)
from airflow_backfill_provider.sources.shared.formats.column_types import ddl_type, parsed_type, struct_type
from airflow_backfill_provider.sources.shared.formats.portable_values import problem_elsewhere

_LETTERS = {"file": StringType(), "record": LongType(), "line": StringType(), "reason": StringType()}
"""The columns of records that cannot be read, beside those that identify them."""

_WITHOUT_CHECKSUMS = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
"""Hadoop looks for checksums of local files in other files, whose names it cannot make if a name has a colon."""

_FILE, _INDEX, _LINE = "__backfill_of_file", "__backfill_of_index", "__backfill_of_line"


class FilesReader(FileLogReader[FilesSource]):
    """
    Reads files of a folder.

    :param source: the folder.
    """

    def read(self, parts: Sequence[FilePart]) -> DataFrame:
        """Return the rows of parts of files; of those that do not fit their columns, according to the definition."""
        upstream = self._source.upstream
        names = [*upstream.column_types]
        if not parts:
            return self._spark.createDataFrame([], StructType([*self._fields(names).fields, *key_fields()]))
        rows = self._placed(parts)
        if upstream.lists_unreadable:
            values = (F.col(_value(number)).alias(name) for number, name in enumerate(names))
            return rows.filter(F.expr(f"{self._error()} IS NULL")).select(*values, SPLIT, PLACE)
        values = (F.expr(_or_failure(number)).alias(name) for number, name in enumerate(names))
        return rows.select(*values, SPLIT, PLACE)

    def unreadable(self, ranges: Sequence[SplitRange]) -> DataFrame | None:
        """Return the records at some places that do not fit their columns."""
        if not self._source.upstream.lists_unreadable:
            return None
        parts = self._source.parts(ranges) if ranges else []
        if not parts:
            fields = (StructField(name, kind) for name, kind in _LETTERS.items())
            return self._spark.createDataFrame([], StructType([*fields, *key_fields()]))
        self._source.splits.require_kept(ranges)
        rows = self._placed(parts).withColumn("reason", F.expr(self._error()))
        return rows.filter(F.col("reason").isNotNull()).select(
            F.col(_FILE).alias("file"),
            (F.col(_INDEX) + 1).cast("long").alias("record"),
            F.col(_LINE).alias("line"),
            "reason",
            SPLIT,
            PLACE,
        )

    def _error(self) -> str:
        """Return the first error of a record."""
        return f"coalesce({', '.join(map(_error, range(len(self._source.upstream.column_types))))})"

    def _fields(self, names: Sequence[str]) -> StructType:
        types = self._source.upstream.column_types
        return StructType.fromJson(struct_type([(name, parsed_type(types[name])) for name in names]))

    def _placed(self, parts: Sequence[FilePart]) -> DataFrame:
        """Return the values and the errors of columns, and where each record is."""
        layouts: dict[object, list[FilePart]] = {}
        for part in parts:
            layouts.setdefault(FileDetails.from_text(part.placed.file.details).layout, []).append(part)
        return union_of([self._alike(alike) for alike in layouts.values()])

    def _alike(self, parts: Sequence[FilePart]) -> DataFrame:
        """Return what :meth:`_placed` does, for files with the same columns."""
        upstream = self._source.upstream
        details = FileDetails.from_text(parts[0].placed.file.details)
        types = upstream.column_types
        stored = [name for name in types if details.has_all or name not in details.partitions]
        found = self._read_files(parts, [name for name in stored if name not in details.empty])
        empty = {
            name: ReadValue(f"CAST(NULL AS {ddl_type(parsed_type(types[name]))})", "NULL") for name in details.empty
        }
        in_path = {name: self._in_path(name) for name in details.partitions}
        values: Mapping[str, ReadValue] = {**found.values, **empty, **in_path}
        columns = {
            name: F.expr(text)
            for number, column in enumerate(upstream.column_types)
            for name, text in ((_value(number), values[column].value), (_error(number), values[column].error))
        }
        of_record = {_FILE: F.col(found.path), _INDEX: F.col(found.index), _LINE: F.expr(found.line)}
        rows = FileRows(rows=found.rows, path=F.col(found.path), index=F.col(found.index))
        return with_places(self._spark, rows, upstream.path, parts, {**columns, **of_record})

    def _read_files(self, parts: Sequence[FilePart], names: Sequence[str]) -> ReadRows:
        upstream = self._source.upstream
        reader = self._spark.read.option("recursiveFileLookup", "true")
        if any(":" in part.placed.file.path for part in parts):
            reader = reader.options(**_WITHOUT_CHECKSUMS)
        found = locations(upstream.path, parts)
        if upstream.format is not FileFormat.PARQUET:
            return read_lines(reader.text(found, wholetext=True), upstream, names)
        types = {name: parsed_type(upstream.column_types[name]) for name in names}
        schema = self._fields(names)
        rows = (
            reader.schema(schema)
            .parquet(*found)
            .select(
                F.col("_metadata.file_path").alias(_FILE),
                F.col("_metadata.row_index").alias(_INDEX),
                *(F.col(quote(name)) for name in names),
            )
        )
        values = {
            name: ReadValue(
                quote(name),
                f"concat({text_literal(f'column {name} ')}, {problem_elsewhere(quote(name), kind)})",
            )
            for name, kind in types.items()
        }
        line = f"to_json(struct({', '.join(map(quote, names))}))" if names else "'{}'"
        return ReadRows(rows, _FILE, _INDEX, line, values)

    def _in_path(self, column: str) -> ReadValue:
        """Return the value of a column that the names of folders have."""
        text = f"{DETAILS}[{text_literal(partition_field(column))}]"
        value = csv_value(text, self._source.upstream.column_types[column])
        wrong = f"{text} IS NOT NULL AND {value} IS NULL"
        return ReadValue(value, misfit(wrong, f"the value of column {column} in the file's path does not fit its type"))


def _value(number: int) -> str:
    return f"__backfill_value_{number}"


def _error(number: int) -> str:
    return f"__backfill_error_{number}"


def _or_failure(number: int) -> str:
    where = f"'{UNREADABLE_LINE.name} record ', {_INDEX} + 1, ' of file ', {_FILE}, ': '"
    failure = f"raise_error(concat({where}, {_error(number)}))"
    return f"CASE WHEN {_error(number)} IS NOT NULL THEN {failure} ELSE {_value(number)} END"
