"""Reads chunks of splits on Spark, straight from the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch.barrier import Barrier, decoded
from airflow_backfill_provider.core.errors import ChangeFeedGapError, MissingRowsError
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyRange
from airflow_backfill_provider.core.scan.spark_hash import vnode_of_number
from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.sources.splits import Splits
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.observed_rows import ObservedRows
from airflow_backfill_provider.spark.spark_errors import source_error
from airflow_backfill_provider.strategies.reader import Chunk, HistoryReader, ReaderContext
from airflow_backfill_provider.strategies.source.chunks import SplitBounds, places_of
from airflow_backfill_provider.strategies.source.dead_letters import DeadLetters
from airflow_backfill_provider.strategies.source.location import DEAD_LETTERS
from airflow_backfill_provider.strategies.source.next_chunk import splits_of
from airflow_backfill_provider.strategies.vnode_scan import VnodeScan

_ALL = "rows"
"""The metric of all rows."""

MOST_OBSERVED = 100
"""The most splits whose rows are counted while they are written, because each is an aggregate of its own."""


class SplitChunk:
    """
    Rows at some places of splits. A place has at most one row, and the row never changes.

    :param job_rows: the upstream's rows that belong to the job.
    :param places: the places, without empty ranges.
    :param splits: the splits.
    :param leaves_out: whether the view lacks rows that cannot be read.
    """

    def __init__(self, job_rows: JobRows, places: Sequence[SplitRange], splits: Splits, *, leaves_out: bool) -> None:
        self._job_rows = job_rows
        self._splits = splits
        # Of a range of keys, a chunk has only some of the rows at its places.
        self._has_gaps = splits.has_gaps or leaves_out or job_rows.keys != EVERYTHING
        self._places = {part.split: part for part in places}
        self._observed: ObservedRows | None = None
        self._is_written = False

    def rows(self) -> DataFrame:
        """Return the rows, which are counted when they are written."""
        read = self._job_rows.rows_of([*self._places.values()])
        if len(self._places) > MOST_OBSERVED:
            return read
        split = self._split
        # Spark counts the rows of a condition slower than it adds up its ones.
        metrics = {_name(number): F.sum((split == number).cast("long")) for number in self._places}
        self._observed = ObservedRows(read, {_ALL: F.count("*"), **metrics})
        return self._observed.rows

    def count(self) -> Mapping[int, int]:
        """
        Return the number of rows by vnode, as counted when they were written; else read and count them.

        :raises MissingRowsError: if the source returned more rows of a split than it has places, or of another split;
            also if it returned fewer, and places have no gaps.
        """
        found = None if self._is_written or self._observed is None else self._observed.result()
        if found is None:
            by_split = self._read_again()
            total = sum(by_split.values())
        else:
            by_split = {number: found[_name(number)] or 0 for number in self._places}
            total = found[_ALL]
        wrong = [str(part) for number, part in self._places.items() if self._is_wrong(by_split.get(number, 0), part)]
        if wrong or total != sum(by_split.get(number, 0) for number in self._places):
            raise MissingRowsError(
                f"{self._job_rows.location} returned {total} rows, but not those that were asked for: "
                f"{'; '.join(wrong) or 'some are of other splits'}; run the epoch again"
            )
        counted: Counter[int] = Counter()
        for number, rows in by_split.items():
            counted[vnode_of_number(number, self._job_rows.vnode_count)] += rows
        return {vnode: rows for vnode, rows in counted.items() if rows}

    def require_sound(self) -> None:
        """Remember that an earlier attempt has written the rows, so that they are not counted on their way now."""
        self._is_written = True

    def _is_wrong(self, rows: int, part: SplitRange) -> bool:
        most = self._splits.most_rows(part)
        return rows > most or (rows < most and not self._has_gaps)

    def _read_again(self) -> dict[int, int]:
        rows = self._job_rows.rows_of([*self._places.values()])
        try:
            counted = rows.groupBy(self._split.alias("split")).agg(F.count("*").alias("rows")).collect()
        except (PySparkException, Py4JError) as error:
            if not isinstance(source_error(error, self._job_rows.location), ChangeFeedGapError):
                raise
            # The view has the rows. Their number only shows the progress, and gaps are few.
            return {number: part.size for number, part in self._places.items()}
        return {row["split"]: row["rows"] for row in counted}

    @property
    def _split(self) -> Column:
        return column(self._job_rows.key.names[0])


def _name(split: int) -> str:
    return f"split_{split}"


class SplitReader(HistoryReader):
    """
    Reads chunks of splits.

    :param context: the objects that the reader works with.
    """

    counts_before_changes: ClassVar[bool] = False
    counts_while_writing: ClassVar[bool] = True

    def __init__(self, context: ReaderContext, scan: VnodeScan) -> None:
        self._context = context
        self._scan = scan
        self._dead_letters = DeadLetters(context)

    @property
    def tables(self) -> Mapping[str, str]:
        """The table of records that cannot be read, if the job has one."""
        return {DEAD_LETTERS: self._dead_letters.location} if self._dead_letters.are_kept else {}

    def prepare(self) -> None:
        """Create the table of records that cannot be read, if the job needs one."""
        self._dead_letters.create()

    def set_aside(self, barrier: Barrier) -> None:
        """List the records of the epoch that cannot be read."""
        if not self._dead_letters.are_kept:
            return
        order = self._context.settings.scan.order
        splits = splits_of(self._context.upstream)
        chunk = places_of(self._scan, barrier.chunk(order), self._bounds(barrier))
        # What was read before the epoch gets the records of the window as changes.
        window = SplitBounds(begins=splits.ends(barrier.changes_after), ends=splits.ends(barrier.upstream.to_offset))
        changed = places_of(self._scan, decoded(barrier.read_before, order), window) if barrier.publishes else []
        self._dead_letters.add(barrier, [*chunk, *changed])

    def chunk(self, barrier: Barrier, ranges: Sequence[KeyRange]) -> AbstractContextManager[Chunk]:
        """Return the rows in some ranges."""
        places = places_of(self._scan, ranges, self._bounds(barrier))
        splits, leaves_out = splits_of(self._context.upstream), self._dead_letters.are_kept
        return nullcontext(SplitChunk(self._context.job_rows, places, splits, leaves_out=leaves_out))

    def _bounds(self, barrier: Barrier) -> SplitBounds:
        splits = splits_of(self._context.upstream)
        return SplitBounds(
            begins=splits.ends(self._context.settings.first_offset), ends=splits.ends(barrier.chunk_offset)
        )
