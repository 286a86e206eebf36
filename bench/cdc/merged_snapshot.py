"""The peer's whole way to a view: the events of an incremental snapshot, merged into a Delta table batch by batch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from bench.cdc.incremental_snapshot import EVENTS, OPERATION, SEQUENCE, IncrementalSnapshot
from bench.cdc.orders import KEY, SCHEMA

_COMMITS_OF_MERGE = 5
"""Half a million events: fewer merges are cheaper, because each one looks for its keys in the view."""


@dataclass(kw_only=True)
class MergedSnapshot(IncrementalSnapshot):
    """
    An incremental snapshot whose events are merged into a view while it is taken, as a stream of batches does.

    :param view: the view's path.
    """

    spark: SparkSession
    view: Path
    _unmerged_commits: int = 0
    _merged: int = 0

    def take(self) -> None:
        """Read all rows, and merge them."""
        empty = self.spark.createDataFrame([], self.spark.createDataFrame(SCHEMA.empty_table()).schema)
        empty.write.format("delta").save(str(self.view))
        super().take()
        self._merge()

    def catch_up(self) -> None:
        """Read and merge the changes since, and end."""
        super().catch_up()
        self._merge()

    def _commit(self) -> None:
        super()._commit()
        self._unmerged_commits += 1
        if self._unmerged_commits == _COMMITS_OF_MERGE:
            self._merge()

    def _merge(self) -> None:
        if not self._sequence:
            return
        events = self.spark.read.format("delta").load(str(self.path)).filter(F.col(SEQUENCE) >= self._merged)
        newest_of(events).createOrReplaceTempView("newest_events")
        columns = ", ".join(SCHEMA.names)
        self.spark.sql(
            f"MERGE INTO delta.`{self.view}` v USING newest_events e ON v.{KEY} = e.{KEY} "
            f"WHEN MATCHED AND e.{OPERATION} = 'd' THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{name} = e.{name}' for name in SCHEMA.names)} "
            f"WHEN NOT MATCHED AND e.{OPERATION} <> 'd' THEN INSERT ({columns}) VALUES ({columns})"
        ).collect()
        self._merged, self._unmerged_commits = self._sequence, 0


def newest_of(events: DataFrame) -> DataFrame:
    """Return the newest event of each key."""
    number = F.row_number().over(Window.partitionBy(KEY).orderBy(F.desc(SEQUENCE)))
    return events.withColumn("__n", number).filter("__n = 1").select(*EVENTS.names)
