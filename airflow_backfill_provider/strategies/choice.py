"""
Which strategy suits an upstream, from its Delta log's statistics alone, and what each would cost.

What decides is how far the files overlap in the leading key column. Files laid out by the key overlap little: a chunk
is read from its own files. Files in random order all overlap, so that ``no_shuffle`` would read the whole table in
every epoch; then it is cheaper to sort it once, into an arrangement.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core.job import BackfillJob, Strategy
from airflow_backfill_provider.core.keys import KeyOrder, KeyValue
from airflow_backfill_provider.core.planner import SCAN_FACTOR, FileStatistics
from airflow_backfill_provider.core.query import check_query
from airflow_backfill_provider.core.row_estimate import rows_of
from airflow_backfill_provider.lake.upstream import UpstreamTable, UpstreamVersion

BYTES_PER_SECOND = 50_000_000
"""What one run is assumed to read and write again, for the estimate of hours; measure your own cluster."""

SECONDS_PER_RUN = 30
"""What starting a Spark application and committing an epoch is assumed to take."""

EPOCHS_OF_A_PAUSED_JOB = 10
"""Epochs that a job is assumed to be given which begins with rate limit 0."""

SORT_PASSES = 3
"""How often making an arrangement moves the table: read it for the bounds, read it and shuffle it, write it."""


class CostEstimate(BaseModel):
    """
    What a whole backfill is expected to take under one strategy.

    :param rows: snapshot rows that are read into the view: of the upstream's, those that the job is about.
    :param bytes: bytes of the files that are looked into, all epochs together; making an arrangement included.
    :param epochs: epochs that read a chunk.
    :param spark_runs: applications: one that creates the job, and those of the epochs.
    :param hours: rough, by the speed that :mod:`airflow_backfill_provider.strategies.choice` assumes.
    """

    model_config = ConfigDict(frozen=True)

    rows: int
    bytes: int
    epochs: int
    spark_runs: int
    hours: float


@dataclass(frozen=True, slots=True)
class StrategyChoice:
    """
    The strategy that a job is created with, and why.

    :param strategy: never ``auto``.
    :param reason: in words, for the plan.
    :param estimates: the cost of each strategy that could have been chosen.
    """

    strategy: Strategy
    reason: str
    estimates: Mapping[Strategy, CostEstimate]


def choose_strategy(job: BackfillJob, upstream: UpstreamTable, described: UpstreamVersion) -> StrategyChoice:
    """
    Choose a job's strategy.

    :param described: the upstream's version to look at.
    """
    key_order = described.key_order(job.upstream.key)
    order = KeyOrder(key_order.fields[:1])
    stored = upstream.files_at(described.version)
    files = stored.files(order)
    rows = rows_of(stored.files(key_order), job, key_order)
    overlap = overlap_of(files, order)
    used = _share_of_columns(job, described)
    estimates = {
        Strategy.NO_SHUFFLE: _cost_in_place(job, files, rows, overlap),
        Strategy.ARRANGEMENT: _cost_arranged(job, files, rows, used),
    }
    strategy, reason = _decide(job, files, rows, overlap)
    return StrategyChoice(strategy, reason, estimates)


def _decide(job: BackfillJob, files: Sequence[FileStatistics], rows: int, overlap: float) -> tuple[Strategy, str]:
    if job.strategy is not Strategy.AUTO:
        return job.strategy, "the job asks for it"
    if job.parallelism > 1:
        return Strategy.ARRANGEMENT, f"chosen by auto, because {job.parallelism} parallel runs need vnodes of their own"
    epochs = _epochs(job, rows)
    if epochs == 1:
        return Strategy.NO_SHUFFLE, "chosen by auto, because one epoch reads all there is in place"
    column = job.upstream.key[0].column
    stored = sum(file.row_count for file in files)
    beside = round(overlap * stored)
    found = f"{beside:,} of {stored:,} rows lie in files that reach across others in {column}"
    if beside > SCAN_FACTOR * math.ceil(stored / epochs):
        return Strategy.ARRANGEMENT, f"chosen by auto, because statistics cannot bound a chunk: {found}"
    return Strategy.NO_SHUFFLE, f"chosen by auto, because the files' statistics bound each chunk: {found}"


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


def _cost_in_place(job: BackfillJob, files: Sequence[FileStatistics], rows: int, overlap: float) -> CostEstimate:
    size = sum(file.size for file in files)
    epochs = _epochs(job, rows)
    # An epoch looks into the files of its own rows, and into those that only overlap them.
    return _cost(rows, round(min(size + epochs * overlap * size, epochs * size)), epochs, parallelism=1)


def _cost_arranged(job: BackfillJob, files: Sequence[FileStatistics], rows: int, used: float) -> CostEstimate:
    size = sum(file.size for file in files)
    arrangement = size * used
    return _cost(rows, round((SORT_PASSES + 1) * arrangement), _epochs(job, rows), parallelism=job.parallelism)


def _cost(rows: int, size: int, epochs: int, *, parallelism: int) -> CostEstimate:
    runs = 1 + epochs * (1 if parallelism == 1 else parallelism + 1)
    seconds = size / BYTES_PER_SECOND / parallelism + (1 + epochs) * SECONDS_PER_RUN
    return CostEstimate(rows=rows, bytes=size, epochs=epochs, spark_runs=runs, hours=round(seconds / 3600, 3))


def _epochs(job: BackfillJob, rows: int) -> int:
    if job.rate_limit == 0:
        return EPOCHS_OF_A_PAUSED_JOB
    return max(math.ceil(rows / job.rate_limit), 1) if job.rate_limit else 1


def _share_of_columns(job: BackfillJob, described: UpstreamVersion) -> float:
    """Estimate the share of the upstream's bytes that the used columns are, as if all columns were equal."""
    names = list(described.types)
    used = {
        *check_query(job.query).columns_of(names),
        *(column.column for column in job.upstream.key),
        *job.upstream.distribution_key,
    }
    return len(used) / len(names)
