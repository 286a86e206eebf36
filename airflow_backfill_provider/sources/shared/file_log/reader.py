"""What readers of files have in common: they read by the places of rows in the files of a file log."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.sources.shared.appended_rows import AppendedRowsReader, as_inserts, is_among
from airflow_backfill_provider.sources.shared.file_log.entries import FilePart, merged
from airflow_backfill_provider.sources.shared.file_log.source import FileLogSource
from airflow_backfill_provider.sources.split_offsets import window

AnySource = TypeVar("AnySource", bound=FileLogSource)


class FileLogReader(AppendedRowsReader, Generic[AnySource]):
    """
    Reads the files of a file log.

    :param source: the upstream of files.
    """

    def __init__(self, spark: SparkSession, source: AnySource) -> None:
        self._spark = spark
        self._source = source

    @abstractmethod
    def read(self, parts: Sequence[FilePart]) -> DataFrame:
        """Return the rows of parts of files, with all columns; there may be no parts."""

    def rows_left(self, offset: Offset) -> DataFrame:
        """Return the rows up to an offset whose files are left as they were."""
        return self.read(self.parts_left(offset))

    def all_rows(self, after: Offset, up_to: Offset) -> DataFrame:
        """Return the rows of all files that were added in ``(after, up_to]``."""
        return self.rows_of([places for places in window(after, up_to) if places.size])

    def parts_left(self, offset: Offset) -> list[FilePart]:
        """Return what files that are left as they were have of the rows up to an offset."""
        parts = self._source.parts_up_to(offset)
        gone = set(self._source.gone_among(parts))
        return [part for part in parts if part not in gone]

    def rows_of(self, ranges: Sequence[SplitRange]) -> DataFrame:
        """Return the rows at some places."""
        self._source.splits.require_kept(ranges)
        return self.read(self._source.parts(ranges))

    def without_removed(self, rows: DataFrame, key: Sequence[str], up_to: Offset) -> DataFrame:
        """Return the rows whose files are left: files may be removed after they were read."""
        gone = self._source.gone_among(self._source.parts_up_to(up_to))
        return rows.filter(~is_among(key, merged(gone)))

    def empty(self) -> DataFrame:
        """Return all columns, without rows."""
        return self.read([])

    def changes(self, after: Offset, up_to: Offset) -> DataFrame:
        """Return the rows of the files that were added in ``(after, up_to]``."""
        return as_inserts(self.all_rows(after, up_to), up_to)
