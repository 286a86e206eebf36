"""
The facts about a job and its upstream that a strategy is chosen by, from the statistics of the upstream's files alone.

The choice depends on how much the files overlap in the leading key column. Files laid out by the key overlap little, so
a chunk is read from a few files. Files in random order all overlap, so every epoch that reads in place would read the
whole table.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

from airflow_backfill_provider.core.epoch.auto_rate import ChunkBounds, epochs_for, limit_in_force
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.rate_limit import AskedRate
from airflow_backfill_provider.core.job.row_estimate import rows_of
from airflow_backfill_provider.core.kinds import query_of
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics, mean_row_bytes
from airflow_backfill_provider.core.scan.keys import KeyOrder, KeyValue
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.description import UpstreamDescription
from airflow_backfill_provider.strategies.cost import CostEstimate

BYTES_PER_SECOND = 50_000_000
"""The speed at which one Spark application is assumed to read and write, for the estimate of hours."""

SECONDS_PER_APPLICATION = 30
"""The assumed time to start a Spark application and commit an epoch."""

EPOCHS_OF_A_PAUSED_JOB = 10
"""The assumed number of epochs of a job that starts with rate limit 0."""


class SeenUpstream(Protocol):
    """An upstream beside the one that leads, as of the offset to choose by."""

    @property
    def source(self) -> Source:
        """The upstream."""
        ...

    @property
    def described(self) -> UpstreamDescription:
        """The upstream as of the offset."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyInputs:
    """
    The facts that a strategy is chosen by.

    :param files: the upstream's files, with bounds of the leading key column; of a union, those of all that lead.
    :param rows: the number of the job's rows.
    :param overlap: see :func:`overlap_of`.
    :param used_share: the estimated share of the upstream's bytes that the job uses.
    :param files_kept_for: how long the upstream keeps files and changes that are no longer current; ``None`` if it has
        no files, or that is unknown.
    """

    job: BackfillJob
    files: Sequence[FileStatistics]
    rows: int
    overlap: float
    used_share: float
    files_kept_for: dt.timedelta | None = None

    @classmethod
    def of(
        cls,
        job: BackfillJob,
        upstream: Source,
        described: UpstreamDescription,
        further: Mapping[str, SeenUpstream] = MappingProxyType({}),
    ) -> StrategyInputs:
        """
        Collect the facts about an upstream.

        :param described: the upstream as of the offset to choose by.
        :param further: the upstreams that lead further branches, by their names.
        """
        key_order = described.key_order(job.upstream.key)
        order = KeyOrder(key_order.fields[:1])
        files = upstream.blocks(described.offset, order)
        others = further_blocks(job, further)
        rows = rows_of(upstream.blocks(described.offset, key_order), job, key_order)
        kept = [found.numbered_files for found in (upstream, *(seen.source for seen in further.values()))]
        times = [time for files_kept in kept if files_kept and (time := files_kept.kept_for()) is not None]
        return cls(
            job=job,
            files=[*files, *others],
            rows=rows + sum(file.row_count for file in others),
            overlap=1.0 if upstream.reads_whole else overlap_of(files, order),
            used_share=_share_of_columns(job, described),
            files_kept_for=min(times, default=None),
        )

    @property
    def bytes(self) -> int:
        """Bytes of the upstream's files."""
        return sum(file.size for file in self.files)

    @property
    def epochs(self) -> int:
        """The number of epochs that will read a chunk."""
        if self.job.rate_limit == 0:
            return EPOCHS_OF_A_PAUSED_JOB
        rate, row_bytes = self.job.rate, mean_row_bytes(self.files)
        first = limit_in_force(rate, (), ChunkBounds(row_bytes=row_bytes)).rows
        return epochs_of(self.rows, rate, first=first, row_bytes=row_bytes)

    def cost(self, size: int, *, parallelism: int) -> CostEstimate:
        """
        Return the cost of a backfill.

        :param size: the bytes that the backfill reads.
        :param parallelism: the number of parallel task runs that share the epochs.
        """
        epochs = self.epochs
        applications = 1 + epochs * (1 if parallelism == 1 else parallelism + 1)
        seconds = size / BYTES_PER_SECOND / parallelism + (1 + epochs) * SECONDS_PER_APPLICATION
        return CostEstimate(
            rows=self.rows, bytes=size, epochs=epochs, spark_runs=applications, hours=round(seconds / 3600, 3)
        )


def epochs_of(rows: int, asked: AskedRate, *, first: int | None, row_bytes: float | None) -> int:
    """
    Estimate how many epochs read some rows. No row takes one epoch, too, which finds that there is none.

    :param first: the rate limit of the first of these epochs; ``None`` if it is unlimited.
    :param row_bytes: the size of a row in the upstream's files; ``None`` if it is unknown.
    """
    if not first:
        return 1
    if not asked.is_auto:
        return max(math.ceil(rows / first), 1)
    steady = int(asked.target * BYTES_PER_SECOND / row_bytes) if row_bytes else first
    most = asked.most_by_pace
    return max(epochs_for(rows, first=first, steady=steady if most is None else min(steady, most)), 1)


def further_blocks(job: BackfillJob, further: Mapping[str, SeenUpstream]) -> list[FileStatistics]:
    """
    Return the files of upstreams that lead further branches.

    :param further: these upstreams, by their names.
    """
    found: list[FileStatistics] = []
    for name, seen in further.items():
        found += seen.source.blocks(seen.described.offset, seen.described.key_order(job.all_upstreams[name].key))
    return found


class _Event(NamedTuple):
    """The begin or the end of a file in the key's order."""

    bound: tuple[KeyValue | None, ...]
    ends: bool
    rows: int


def overlap_of(files: Sequence[FileStatistics], order: KeyOrder) -> float:
    """
    Return the share of the other files' rows that lie in files overlapping a row's own file, averaged over all rows.

    It is 1 if all files overlap, and 0 if files are laid out in key order. A file without statistics overlaps all.

    :param files: the files, with bounds of the leading key column.
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
    # At the same value, a begin comes before an end, because both files hold the value.
    for event in sorted(events, key=lambda event: (order.sort_key(event.bound), event.ends)):
        if event.ends:
            around -= event.rows
        else:
            pairs += event.rows * around
            around += event.rows
    # Each pair counts for both files; a file without statistics overlaps all others.
    apart = sum(file.row_count**2 for file in files if not (file.lower and file.upper))
    overlapping = 2 * pairs + 2 * unbounded * (total - unbounded) + unbounded**2 - apart
    return overlapping / (total**2 - own)


def _share_of_columns(job: BackfillJob, described: UpstreamDescription) -> float:
    """Estimate the used columns' share of the upstream's bytes; all columns are assumed to have the same size."""
    names = list(described.types)
    used = {
        *query_of(job).columns_of(names),
        *(column.column for column in job.upstream.key),
        *job.upstream.distribution_key,
    }
    return len(used) / len(names)
