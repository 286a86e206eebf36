"""
Plans what the next epoch reads of an arrangement: where each part of the chunk ends, from the arrangement's files.

The rate limit decides only how many rows each epoch reads, never which rows the view gets in the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.epoch.shared_vnodes import shared_vnodes
from airflow_backfill_provider.core.errors import ChangeFeedGapError, JobCancelledError, StateError
from airflow_backfill_provider.core.job.row_estimate import rows_of
from airflow_backfill_provider.core.kinds import row_units
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.keys import EVERYTHING
from airflow_backfill_provider.core.scan.next_chunk import choose_parts
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.progress import BackfillState
from airflow_backfill_provider.core.scan.scan import VnodeRange, with_key
from airflow_backfill_provider.core.scan.unit_chunks import choose_unit_parts
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.strategies.arrangement.files import ArrangementFiles
from airflow_backfill_provider.strategies.base import ChunkInputs, NextChunk


def next_arranged_chunk(inputs: ChunkInputs, location: str) -> NextChunk:
    """
    Plan what an epoch reads.

    :param location: the arrangement's location.
    :raises StateError: if the arrangement is gone although epochs read it before.
    """
    settings, state, upstream, previous = (
        inputs.settings,
        inputs.state,
        inputs.upstream,
        inputs.previous,
    )
    offset, kept_up_to = inputs.offset, inputs.kept_up_to
    arrangement = ArrangementFiles(location, inputs.storage_options)
    rows = upstream.row_count(offset)
    if not arrangement.exists():
        if settings.cancelled:
            raise JobCancelledError(
                f"job {settings.job['name']} was cancelled and its arrangement is gone; rebuild the job to start over"
            )
        if previous is not None:
            raise StateError(
                f"the arrangement of job {settings.job['name']} is gone from {arrangement.path}, but epochs have "
                "already read parts of it; restore it, or rebuild the job"
            )
        return NextChunk(_rows_of_job(settings, upstream, offset, rows), prepares=True)
    # Without a rate limit the chunk need not be counted.
    rate_limit = inputs.rate_limit
    counts = settings.reads_snapshot and rate_limit is not None and kept_up_to < offset
    by_units, order = row_units(settings) is not None, settings.scan.order
    # Only Spark can compute the units of changes.
    coming = upstream.window_changes(settings, kept_up_to, offset) if counts and not by_units else None
    layout = with_key(order, settings.key_order)
    files, keys = arrangement.statistics(order, settings.base_epoch, settings.own_columns, coming, layout=layout)
    row_count = sum(file.row_count for file in files)
    if settings.keys == EVERYTHING and not by_units:
        row_count = _rows_of_job(settings, upstream, offset, rows)
    owned = _vnode_ranges(settings, state, files, previous)
    if not settings.reads_snapshot:
        return NextChunk(row_count, vnode_ranges=owned)
    choose = choose_unit_parts if by_units else choose_parts
    parts = choose(
        files,
        unread=[settings.scan.unread(state, vnodes) for vnodes in owned],
        rate_limit=_shrunk(rate_limit, upstream, kept_up_to, rows) if counts and coming is None else rate_limit,
        order=order,
        keys=keys,
    )
    return NextChunk(row_count, tuple(part for part in parts if part.ranges), owned)


def _rows_of_job(settings: JobSettings, upstream: Source, offset: Offset, rows: int) -> int:
    """
    Estimate the number of the job's rows.

    :param rows: the upstream's rows, from which they follow if the job has no range of keys.
    """
    job = settings.definition
    if settings.keys == EVERYTHING:
        return rows * len(job.vnodes) // job.vnode_count
    return rows_of(upstream.blocks(offset, settings.key_order), job, settings.key_order)


def _shrunk(rate_limit: int | None, upstream: Source, kept_up_to: Offset, rows_after: int) -> int | None:
    """
    Lower the rate limit to leave room for inserts to come; their keys are assumed to be spread evenly.

    :param kept_up_to: the offset that the arrangement is as of.
    :param rows_after: the upstream's rows once the inserts are kept.
    """
    if rate_limit is None:
        return None
    try:
        rows_before = upstream.row_count(kept_up_to)
    except ChangeFeedGapError:
        # This offset lies before the window; another check refuses a window with missing changes.
        return rate_limit
    if rows_after <= rows_before:
        return rate_limit
    return max(rate_limit * rows_before // rows_after, 1)


def _vnode_ranges(
    settings: JobSettings, state: BackfillState, files: Sequence[FileStatistics], previous: Barrier | None
) -> tuple[VnodeRange, ...]:
    """Return the vnodes of each parallel task run."""
    return shared_vnodes(state, settings.parallelism, previous, lambda: _rows_by_vnode(files, len(state.vnodes)))


def _rows_by_vnode(files: Sequence[FileStatistics], vnode_count: int) -> list[float]:
    """Estimate each vnode's rows; each file's rows are assumed to be spread evenly over its vnodes."""
    rows = [0.0] * vnode_count
    for file in files:
        first, last = (file.lower[0], file.upper[0]) if file.lower and file.upper else (0, vnode_count - 1)
        if isinstance(first, int) and isinstance(last, int):
            for vnode in range(first, last + 1):
                rows[vnode] += file.row_count / (last - first + 1)
    return rows
