"""What readers of files have in common: they read by the places of rows in the files of a file log."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import ClassVar, Generic, Self, TypeVar

from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.sources.reader import SourceReader
from airflow_backfill_provider.sources.shared.appended_rows import as_inserts, is_among
from airflow_backfill_provider.sources.shared.file_log.entries import FilePart, merged
from airflow_backfill_provider.sources.shared.file_log.source import FileLogSource
from airflow_backfill_provider.sources.split_offsets import window

AnySource = TypeVar("AnySource", bound=FileLogSource)


class FileLogReader(SourceReader, Generic[AnySource]):
    """
    Reads the files of a file log.

    :param source: the upstream of files.
    """

    keys_are_unique: ClassVar[bool] = True
    appends_only: ClassVar[bool] = True
    loses_rows: ClassVar[bool] = True

    def __init__(self, spark: SparkSession, source: AnySource) -> None:
        self._spark = spark
        self._source = source
        self._begin: Offset | None = None

    def whole_since(self, begin: Offset) -> Self:
        """Return a reader that needs all files with rows after an offset."""
        reader = copy(self)
        reader._begin = begin  # noqa: SLF001 - it is a copy of this object
        return reader

    @abstractmethod
    def read(self, parts: Sequence[FilePart]) -> DataFrame:
        """Return the rows of parts of files, with all columns; there may be no parts."""

    def rows(self, offset: Offset) -> DataFrame:
        """Return the rows up to an offset whose files are left as they were."""
        if self._begin is not None:
            return self.rows_of([places for places in window(self._begin, offset) if places.size])
        return self.read(self.parts_left(offset))

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
        return as_inserts(self.rows_of([places for places in window(after, up_to) if places.size]), up_to)
