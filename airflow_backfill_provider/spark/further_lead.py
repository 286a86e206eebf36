"""An upstream that leads a branch of a union, beside the one that leads the job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch.settings import OtherUpstream
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyRange
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.row_bounds import RowBounds, row_bounds
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.spark.job_rows import JobRows


class RowCounter:
    """
    Counts the job's rows of an upstream on Spark, and remembers the last count.

    :param rows: the rows.
    """

    def __init__(self, rows: JobRows) -> None:
        self._rows = rows
        self._counts: dict[tuple[Offset, tuple[KeyRange, ...]], int] = {}

    def count(self, offset: Offset, ranges: Sequence[KeyRange]) -> int:
        """Count the job's rows in some ranges of the scan's order as of an offset, without skipping any file."""
        counted = offset, tuple(ranges)
        if counted not in self._counts:
            # Delta would answer a plain count from its log.
            total = self._rows.within(offset, ranges).agg(F.sum(F.lit(1)).alias("rows")).collect()[0]["rows"]
            self._counts = {counted: int(total or 0)}
        return self._counts[counted]

    def learn(self, offset: Offset, rows: int) -> None:
        """Remember the number of all of the job's rows as of an offset, which was counted without skipping any file."""
        self._counts = {(offset, (EVERYTHING,)): rows}

    def forget(self) -> None:
        """Forget what was counted and learned, so that it is counted again."""
        self._counts = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherLead:
    """
    An upstream that leads a branch of a union, beside the one that leads the job.

    :param source: the upstream.
    :param created_on: the upstream as of the job's creation.
    :param rows: its rows, with positions.
    :param counter: counts its rows.
    """

    source: Source
    created_on: OtherUpstream
    rows: JobRows
    counter: RowCounter = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "counter", RowCounter(self.rows))

    def bounds(self, offset: Offset, ranges: Sequence[KeyRange]) -> RowBounds:
        """Return bounds of the number of its rows in some ranges as of an offset, from statistics of files."""
        return row_bounds(self.source.blocks(offset, self.rows.key), ranges, self.rows.key, share=False)
