"""
What is known of a job and its upstream when a strategy is chosen: the Delta log's statistics alone.

What decides is how far the files overlap in the leading key column. Files laid out by the key overlap little: a chunk
is read from its own files. Files in random order all overlap, so that every epoch that reads in place would read the
whole table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from airflow_backfill_provider.core.file_statistics import FileStatistics
from airflow_backfill_provider.core.job import BackfillJob
from airflow_backfill_provider.core.keys import KeyOrder, KeyValue
from airflow_backfill_provider.core.kinds import shape_of
from airflow_backfill_provider.core.row_estimate import rows_of
from airflow_backfill_provider.sources.base import Source, UpstreamDescription
from airflow_backfill_provider.strategies.cost import CostEstimate

BYTES_PER_SECOND = 50_000_000
"""What one run is assumed to read and write again, for the estimate of hours; measure your own cluster."""

SECONDS_PER_RUN = 30
"""What starting a Spark application and committing an epoch is assumed to take."""

EPOCHS_OF_A_PAUSED_JOB = 10
"""Epochs that a job is assumed to be given which begins with rate limit 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """
    What the choice goes by.

    :param files: the upstream's, with bounds of the leading key column.
    :param rows: those that the job is about.
    :param overlap: see :func:`overlap_of`.
    :param used_share: about which share of the upstream's bytes the job uses.
    """

    job: BackfillJob
    files: Sequence[FileStatistics]
    rows: int
    overlap: float
    used_share: float

    @classmethod
    def of(cls, job: BackfillJob, upstream: Source, described: UpstreamDescription) -> Evidence:
        """
        Look at an upstream.

        :param described: its version to look at.
        """
        key_order = described.key_order(job.upstream.key)
        order = KeyOrder(key_order.fields[:1])
        files = upstream.blocks(described.offset, order)
        return cls(
            job=job,
            files=files,
            rows=rows_of(upstream.blocks(described.offset, key_order), job, key_order),
            overlap=overlap_of(files, order),
            used_share=_share_of_columns(job, described),
        )

    @property
    def bytes(self) -> int:
        """Bytes of the upstream's files."""
        return sum(file.size for file in self.files)

    @property
    def epochs(self) -> int:
        """How many epochs will read a chunk."""
        if self.job.rate_limit == 0:
            return EPOCHS_OF_A_PAUSED_JOB
        return max(math.ceil(self.rows / self.job.rate_limit), 1) if self.job.rate_limit else 1

    def cost(self, size: int, *, parallelism: int) -> CostEstimate:
        """
        Return what a backfill costs.

        :param size: the bytes that it looks into.
        :param parallelism: the runs that share them.
        """
        epochs = self.epochs
        runs = 1 + epochs * (1 if parallelism == 1 else parallelism + 1)
        seconds = size / BYTES_PER_SECOND / parallelism + (1 + epochs) * SECONDS_PER_RUN
        return CostEstimate(rows=self.rows, bytes=size, epochs=epochs, spark_runs=runs, hours=round(seconds / 3600, 3))


class _Event(NamedTuple):
    """A file begins or ends in the key's order."""

    bound: tuple[KeyValue | None, ...]
    ends: bool
    rows: int


def overlap_of(files: Sequence[FileStatistics], order: KeyOrder) -> float:
    """
    Return which share of the other rows lies in files that overlap a row's own file, on average over all rows.

    1 means that every file reaches everywhere; with files laid out in key order it is 0. A file without statistics
    reaches everywhere.

    :param files: with bounds of the leading key column.
    :param order: the leading key column's order.
    """
    total = sum(file.row_count for file in files)
    own = sum(file.row_count**2 for file in files)
    if not total or own == total**2:
        return 0.0
    bounded = [file for file in files if file.lower and file.upper]
    unbounded = total - sum(file.row_count for file in bounded)
    events = [_Event(file.lower, False, file.row_count) for file in bounded]
    events += [_Event(file.upper, True, file.row_count) for file in bounded]

    around, pairs = 0, 0
    # A file begins before another one ends at the same value, for both hold it.
    for event in sorted(events, key=lambda event: (order.sort_key(event.bound), event.ends)):
        if event.ends:
            around -= event.rows
        else:
            pairs += event.rows * around
            around += event.rows
    # Each pair counts from both sides; files without statistics overlap everything but themselves.
    apart = sum(file.row_count**2 for file in files if not (file.lower and file.upper))
    overlapping = 2 * pairs + 2 * unbounded * (total - unbounded) + unbounded**2 - apart
    return overlapping / (total**2 - own)


def _share_of_columns(job: BackfillJob, described: UpstreamDescription) -> float:
    """Estimate the share of the upstream's bytes that the used columns are, as if all columns were equal."""
    names = list(described.types)
    used = {
        *shape_of(job.query).query(job.query).columns_of(names),
        *(column.column for column in job.upstream.key),
        *job.upstream.distribution_key,
    }
    return len(used) / len(names)
