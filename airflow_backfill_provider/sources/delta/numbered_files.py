"""The files of a Delta table, numbered in the order in which they were written."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from airflow_backfill_provider.core.offset import Offset
from airflow_backfill_provider.lake.delta_log import DeltaLog, changes_rows
from airflow_backfill_provider.lake.existing import is_table
from airflow_backfill_provider.lake.log_state import log_state
from airflow_backfill_provider.lake.numbered_log import write_numbered_log
from airflow_backfill_provider.lake.storage import log_errors
from airflow_backfill_provider.sources.delta.versions import offset_of, version_of
from airflow_backfill_provider.sources.delta.windows import COMMITS_WORTH_READING
from airflow_backfill_provider.sources.numbered_files import NumberedFile, NumberedFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_backfill_provider.sources.delta.source import DeltaSource

_CHANGED_ROWS = (
    "numUpdatedRows",
    "numDeletedRows",
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "numTargetRowsDeleted",
)
_WRITTEN_ROWS = ("numOutputRows", "num_added_rows")
"""These also count rows that were only moved to another file, so they matter if a commit has none of the others."""


class DeltaNumberedFiles(NumberedFiles):
    """
    The files of a Delta table.

    :param source: the table.
    :param path: its canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, source: DeltaSource, path: str, storage_options: Mapping[str, str]) -> None:
        self._source = source
        self._path = path
        self._options = storage_options

    def files(self, offset: Offset) -> Sequence[NumberedFile]:
        """Return the files of a version, by the time at which each was written, and then by its path."""
        return tuple(
            NumberedFile(
                path=file.path, stored=stored.rows, live=live.rows, is_exact=live.is_exact, size=file.size or 0
            )
            for file, stored, live in self._source.files_at(offset).in_order()
        )

    def counted(self, offset: Offset, numbers: Sequence[int]) -> int | None:
        """Count the rows by the files' footers, without those that deletion vectors hide."""
        data_files, files = self._source.files_at(offset), self.files(offset)
        chosen = [files[number] for number in numbers]
        if not all(file.is_exact for file in chosen):
            return None
        return sum(data_files.footer_rows(file.path) - (file.stored - file.live) for file in chosen)

    def kept_for(self) -> dt.timedelta | None:
        """Return the shorter of the retention of files and of the log."""
        return self._source.changes_kept_for()

    def first_removal(self, after: Offset, newest: Offset) -> tuple[Offset, dt.datetime] | None:
        """Look at the next commits; a compaction removes files, too."""
        log, first = self._source.log, version_of(after) + 1
        for version in range(first, min(first + COMMITS_WORTH_READING, version_of(newest) + 1)):
            commit = log.commit(version)
            if commit is not None and commit.removes_files:
                return offset_of(version), commit.timestamp
        return None

    def few_changes(self, after: Offset, newest: Offset, *, rows: int, steps: int) -> Offset:
        """Return the last version up to which the commits report no more changed rows."""
        log, changed, before = self._source.log, 0, version_of(after)
        least = before + max(steps, 1)
        for version in range(before + 1, version_of(newest) + 1):
            changed += _changed_rows(log.actions(version) or ())
            if changed > rows and version > least:
                return offset_of(version - 1)
        return newest

    def rows(self, spark: SparkSession, offset: Offset, folder: str, names: tuple[str, str]) -> DataFrame:
        """Return the rows of a version, through a log that numbers its files."""
        from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

        from airflow_backfill_provider.sources.by_key import column

        if not is_table(folder, self._options):
            self._number(offset, folder)
        # It has no other version; if none is given, Delta looks for a newer one in each query.
        table = spark.read.format("delta").option("versionAsOf", 0).load(folder)
        file, row = names
        *columns, number = table.columns
        return table.select(
            *map(column, columns),
            F.col(number).alias(file),
            table.metadataColumn("_metadata").getField("row_index").alias(row),
        )

    def _number(self, offset: Offset, folder: str) -> None:
        """Write the log that numbers the files of a version."""
        with log_errors(self._path):
            state = log_state(DeltaLog(self._path, self._options), version_of(offset))
        by_path = {unquote(path): path for path in state.files}
        in_order = [by_path.get(file.path, file.path) for file in self.files(offset)]
        write_numbered_log(folder, self._path, state, in_order, self._options)


def _changed_rows(actions: Sequence[Mapping[str, Mapping[str, Any]]]) -> int:
    """Return how many rows a commit says that it has changed; if it says nothing, the rows of its files."""
    info: Mapping[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    changes = [content for action in actions for kind, content in action.items() if changes_rows(kind, content)]
    if not changes:
        return 0
    metrics = info.get("operationMetrics") or {}
    for names in (_CHANGED_ROWS, _WRITTEN_ROWS):
        if told := [metrics[name] for name in names if str(metrics.get(name, "")).isdigit()]:
            return sum(map(int, told))
    return sum(int(_statistics(content).get("numRecords", 0)) for content in changes)


def _statistics(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        found = json.loads(entry.get("stats") or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
