"""Reads chunks of splits on Spark, straight from the source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.errors import MissingRowsError
from airflow_backfill_provider.core.keys import KeyRange
from airflow_backfill_provider.core.splits import SplitRange
from airflow_backfill_provider.engine.job_rows import JobRows
from airflow_backfill_provider.strategies.reader import Chunk, ReaderContext, SnapshotReader
from airflow_backfill_provider.strategies.source.chunks import SplitBounds, places_of
from airflow_backfill_provider.strategies.source.planning import splits_of
from airflow_backfill_provider.strategies.vnode_scan import VnodeScan


@dataclass(frozen=True, kw_only=True)
class SplitChunk:
    """
    Rows at some places of splits. A place has at most one row, and the row never changes.

    :param job_rows: the upstream's rows that belong to the job.
    :param places: the places, without empty ranges.
    """

    job_rows: JobRows
    places: Sequence[SplitRange]
    _read: list[DataFrame] = field(default_factory=list)

    def rows(self) -> DataFrame:
        """Return the rows."""
        if not self._read:
            self._read.append(self.job_rows.rows_of(self.places).persist())
        return self._read[0]

    def count(self) -> Mapping[int, int]:
        """
        Count the rows by vnode.

        :raises MissingRowsError: if a split has more rows than places, or rows at other places.
        """
        split, place = self.job_rows.key.names
        vnode = self.job_rows.own.vnode
        counted = (
            self.rows()
            .groupBy(vnode, split)
            .agg(F.count("*").alias("rows"), F.min(place).alias("first"), F.max(place).alias("last"))
            .collect()
        )
        wanted = {places.split: places for places in self.places}
        found: dict[int, int] = {}
        for row in counted:
            places = wanted.get(row[split])
            if (
                places is None
                or row["rows"] > places.size
                or not places.begin <= row["first"] <= row["last"] < places.end
            ):
                raise MissingRowsError(
                    f"{self.job_rows.location}: split {row[split]} returned {row['rows']} rows from {row['first']} to "
                    f"{row['last']}, but {places} was asked for; run the epoch again"
                )
            found[row[vnode]] = found.get(row[vnode], 0) + row["rows"]
        return found

    def require_sound(self) -> None:
        """Do nothing: counting checks every row."""

    def release(self) -> None:
        """Free what was kept."""
        for rows in self._read:
            rows.unpersist()


class SplitReader(SnapshotReader):
    """
    Reads chunks of splits; has no tables.

    :param context: the objects that the reader works with.
    """

    counts_before_changes: ClassVar[bool] = False

    def __init__(self, context: ReaderContext, scan: VnodeScan) -> None:
        self._context = context
        self._scan = scan

    @contextmanager
    def chunk(self, barrier: Barrier, ranges: Sequence[KeyRange]) -> Iterator[Chunk]:
        """Return the rows in some ranges."""
        splits = splits_of(self._context.upstream)
        bounds = SplitBounds(
            begins=splits.ends(self._context.settings.first_offset), ends=splits.ends(barrier.chunk_offset)
        )
        chunk = SplitChunk(job_rows=self._context.job_rows, places=places_of(self._scan, ranges, bounds))
        try:
            yield chunk
        finally:
            chunk.release()
