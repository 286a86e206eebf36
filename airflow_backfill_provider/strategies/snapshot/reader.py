"""Reads chunks of files on Spark."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.errors import MissingRowsError
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyRange, Position
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.numbered_files import NumberedFile
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.observed_rows import ObservedRows
from airflow_backfill_provider.spark.predicates import in_any
from airflow_backfill_provider.strategies.reader import Chunk, HistoryReader, ReaderContext
from airflow_backfill_provider.strategies.snapshot.lead_files import LeadFiles, lead_files
from airflow_backfill_provider.strategies.snapshot.scan import BEFORE_ROWS, place_of

logger = logging.getLogger(__name__)

_COUNT = "rows"


class FilesChunk:
    """
    Rows of some files of one upstream as of the pinned version, which never change.

    :param job_rows: the upstream's rows that belong to the job.
    :param lead: the upstream's files.
    :param ranges: the ranges of (file, row).
    """

    def __init__(self, job_rows: JobRows, lead: LeadFiles, ranges: Sequence[KeyRange]) -> None:
        self._job_rows = job_rows
        self._lead = lead
        self._ranges = ranges
        self._observed: ObservedRows | None = None
        self._is_written = False

    def rows(self) -> DataFrame:
        """Return the rows, which are counted when they are written."""
        if not self._numbers:
            # Spark would never report the metrics of a relation that it knows to be empty.
            return self._read()
        # Spark computes every column that it counts over, so that of the vnode and those of the position are left out.
        used = self._read().select(*map(column, self._job_rows.columns))
        self._observed = ObservedRows(used, {_COUNT: F.count("*")})
        return self._observed.rows

    def count(self) -> Mapping[int, int]:
        """
        Return the number of rows, as counted when they were written; else read and count them.

        :raises MissingRowsError: if the files have more or fewer.
        """
        if not self._numbers:
            return {}
        found = None if self._is_written or self._observed is None else self._observed.result()
        rows = self._read_again() if found is None else int(found[_COUNT])
        self._require_all(rows)
        return {0: rows} if rows else {}

    def require_sound(self) -> None:
        """Remember that an earlier attempt has written the rows, so that they are not counted on their way now."""
        self._is_written = True

    def _read(self) -> DataFrame:
        ranges = [_by_files(covered) for covered in self._ranges]
        return self._job_rows.at_start().filter(in_any(self._job_rows.scan, ranges))

    def _read_again(self) -> int:
        # Delta would answer a plain count from its log.
        return int(self._read().agg(F.sum(F.lit(1)).alias(_COUNT)).collect()[0][_COUNT] or 0)

    def _require_all(self, rows: int) -> None:
        """Compare the number of rows with what the log, and else the files, say of those that are read as a whole."""
        is_part = self._job_rows.is_restricted or self._job_rows.keys != EVERYTHING
        for covered in self._ranges:
            is_part |= any(place_of(end)[1] != BEFORE_ROWS for end in (covered.after, covered.up_to) if end)
        numbers = self._numbers
        logged = sum(self._listed[number].live for number in numbers)
        if rows == logged or (is_part and rows < logged):
            return
        counted = self._lead.listing.counted(self._lead.offset, numbers)
        if counted is None or rows == counted or (is_part and rows < counted):
            logger.warning(
                "%s: the log counts %d rows in the files of a chunk, but they have %d",
                self._job_rows.location,
                logged,
                rows,
            )
            return
        raise MissingRowsError(
            f"{len(numbers)} files of {self._job_rows.location} have {counted} rows as of offset {self._lead.offset}, "
            f"but {rows} were read; run the epoch again, and repair the table if that fails, too"
        )

    @cached_property
    def _numbers(self) -> list[int]:
        """The indexes of the files in the ranges, among the upstream's."""
        return [index for covered in self._ranges for index in self._lead.indexes_in(covered)]

    @cached_property
    def _listed(self) -> Sequence[NumberedFile]:
        return self._lead.files


class LeadsChunk:
    """
    Rows of some files of several upstreams, each as of its pinned version.

    :param chunk: those of the upstream that leads the job.
    :param further: those of the ones that lead further branches, by their names.
    """

    def __init__(self, chunk: FilesChunk, further: Mapping[str, FilesChunk]) -> None:
        self._chunk = chunk
        self._further = further

    def rows(self) -> DataFrame:
        """Return the rows of the upstream that leads the job."""
        return self._chunk.rows()

    def further(self) -> Mapping[str, DataFrame]:
        """Return the rows of the others, by their names."""
        return {name: chunk.rows() for name, chunk in self._further.items()}

    def count(self) -> Mapping[int, int]:
        """
        Return the number of rows of all of them.

        :raises MissingRowsError: if the files of one of them have more or fewer.
        """
        counts = [chunk.count().get(0, 0) for chunk in (self._chunk, *self._further.values())]
        return {0: sum(counts)} if any(counts) else {}

    def require_sound(self) -> None:
        """Remember that an earlier attempt has written the rows."""
        for chunk in (self._chunk, *self._further.values()):
            chunk.require_sound()


class SnapshotReader(HistoryReader):
    """
    Reads chunks of files.

    :param context: the objects that the reader works with.
    """

    counts_before_changes: ClassVar[bool] = False
    counts_while_writing: ClassVar[bool] = True

    def __init__(self, context: ReaderContext) -> None:
        self._context = context

    def chunk(self, barrier: Barrier, ranges: Sequence[KeyRange]) -> AbstractContextManager[Chunk]:
        """Return the rows in some ranges."""
        del barrier
        context = self._context
        # The account keeps its upstream from epoch to epoch, and that keeps the pinned version open.
        sources = {name: lead.source for name, lead in context.further.items()}
        leads = lead_files(context.settings, context.account.upstream, sources)
        rows = [context.job_rows, *(lead.rows for lead in context.further.values())]
        first, *others = (FilesChunk(*lead, ranges) for lead in zip(rows, leads, strict=True))
        further = dict(zip(context.further, others, strict=True))
        return nullcontext(LeadsChunk(first, further) if further else first)

    def further(self, chunk: Chunk) -> Mapping[str, DataFrame]:
        """Return the rows of upstreams that lead further branches."""
        return chunk.further() if isinstance(chunk, LeadsChunk) else {}

    def check(self, barrier: Barrier) -> None:
        """
        Check the keys of all rows before the epoch that finishes the view.

        Chunks are no ranges of keys, so rows with one key may lie in different ones.
        """
        if not (barrier.completes and barrier.parts):
            return
        context, to_offset = self._context, barrier.upstream.to_offset
        context.account.learn(to_offset, _measured(context.job_rows, context.upstream, to_offset))
        for name, lead in context.further.items():
            to_offset = barrier.window(name).to_offset
            lead.counter.learn(to_offset, _measured(lead.rows, lead.source, to_offset))


def _measured(rows: JobRows, source: Source, offset: Offset) -> int:
    """Return the number of all of a job's rows of an upstream; refuse a key that several have."""
    return rows.measure(offset, expected=source.row_count(offset))


def _by_files(covered: KeyRange) -> KeyRange:
    """Return the same range, without the row where it begins or ends with a whole file."""
    return KeyRange(_by_file(covered.after), _by_file(covered.up_to))


def _by_file(position: Position | None) -> Position | None:
    if position is None:
        return None
    number, row = place_of(position)
    # At or before (7,) is every row of file 7 and of those before it.
    return (number - 1,) if row == BEFORE_ROWS else position
