"""The files of a Delta table, numbered in the order in which they were written."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.log_state import log_state
from airflow_backfill_provider.lake.log.numbered_log import write_numbered_log
from airflow_backfill_provider.lake.store.storage import log_errors
from airflow_backfill_provider.lake.tables.existing import is_table
from airflow_backfill_provider.sources.delta.changed_rows import changed_rows
from airflow_backfill_provider.sources.delta.history import DeltaHistory
from airflow_backfill_provider.sources.delta.versions import offset_of, version_of
from airflow_backfill_provider.sources.delta.windows import COMMITS_WORTH_READING
from airflow_backfill_provider.sources.numbered_files import NumberedFile, NumberedFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class DeltaNumberedFiles(NumberedFiles):
    """
    The files of a Delta table.

    :param history: the table's versions.
    """

    def __init__(self, history: DeltaHistory) -> None:
        self._history = history

    def files(self, offset: Offset) -> Sequence[NumberedFile]:
        """Return the files of a version, by the time at which each was written, and then by its path."""
        return tuple(
            NumberedFile(
                path=file.path, stored=stored.rows, live=live.rows, is_exact=live.is_exact, size=file.size or 0
            )
            for file, stored, live in self._history.files_at(offset).in_order()
        )

    def counted(self, offset: Offset, numbers: Sequence[int]) -> int | None:
        """Count the rows by the files' footers, without those that deletion vectors hide."""
        data_files, files = self._history.files_at(offset), self.files(offset)
        chosen = [files[number] for number in numbers]
        if not all(file.is_exact for file in chosen):
            return None
        return sum(data_files.footer_rows(file.path) - (file.stored - file.live) for file in chosen)

    def kept_for(self) -> dt.timedelta | None:
        """Return the shorter of the retention of files and of the log."""
        return self._history.changes_kept_for()

    def first_removal(self, after: Offset, newest: Offset) -> tuple[Offset, dt.datetime] | None:
        """Look at the next commits; a compaction removes files, too."""
        log, first = self._history.log, version_of(after) + 1
        for version in range(first, min(first + COMMITS_WORTH_READING, version_of(newest) + 1)):
            commit = log.commit(version)
            if commit is not None and commit.removes_files:
                return offset_of(version), commit.timestamp
        return None

    def few_changes(self, after: Offset, newest: Offset, *, rows: int, steps: int) -> Offset:
        """Return the last version up to which no more rows changed; see :mod:`.changed_rows`."""
        least = version_of(after) + max(steps, 1)
        for version, changed in self._changed_up_to(after, newest):
            if changed > rows:
                return min(offset_of(max(version - 1, least)), newest)
        return newest

    def changed_rows(self, after: Offset, up_to: Offset, *, at_most: int) -> int:
        """Return about how many rows the commits of a window changed; see :mod:`.changed_rows`."""
        counts = (changed for _, changed in self._changed_up_to(after, up_to))
        total = 0
        for total in counts:
            if total >= at_most:
                return at_most
        return total

    def _changed_up_to(self, after: Offset, newest: Offset) -> Iterator[tuple[int, int]]:
        """Yield each version of a window, with the rows that changed in it and in those before it, about."""
        log, changed = self._history.log, 0
        for version in range(version_of(after) + 1, version_of(newest) + 1):
            changed += changed_rows(log.actions(version) or (), log.storage)
            yield version, changed

    def rows(
        self, spark: SparkSession, offset: Offset, folder: str, names: tuple[str, str], first: int = 0
    ) -> DataFrame:
        """Return the rows of a version, through a log that numbers its files."""
        from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

        from airflow_backfill_provider.sources.shared.by_key import column
        from airflow_backfill_provider.sources.shared.hidden_rows import ROW_INDEX, without_file_metadata

        if not is_table(folder, self._history.storage_options):
            self._number(offset, folder, first)
        # It has no other version; if none is given, Delta looks for a newer one in each query.
        table = spark.read.format("delta").option("versionAsOf", 0).load(folder)
        if self._history.files_at(offset).may_hide_rows:
            # The rows of whole files are read without their numbers.
            table = without_file_metadata(table)
        file, row = names
        *columns, number = table.columns
        return table.select(
            *map(column, columns),
            F.col(number).alias(file),
            table.metadataColumn("_metadata").getField(ROW_INDEX).alias(row),
        )

    def _number(self, offset: Offset, folder: str, first: int) -> None:
        """Write the log that numbers the files of a version."""
        with log_errors(self._history.path):
            state = log_state(DeltaLog(self._history.path, self._history.storage_options), version_of(offset))
        by_path = {unquote(path): path for path in state.files}
        in_order = [by_path.get(file.path, file.path) for file in self.files(offset)]
        write_numbered_log(folder, self._history.path, state, in_order, self._history.storage_options, first)
