"""
What the next barrier reads of the snapshot: where each parallel run's chunk ends, planned without a JVM.

``no_shuffle`` plans on the upstream's own files, ``arrangement`` on those of the arrangement. Both plan a number of
rows from the rate limit; which rows the view gets does not depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.errors import ChangeFeedGapError, JobCancelledError, StateError
from airflow_backfill_provider.core.keys import EVERYTHING, KeyRange
from airflow_backfill_provider.core.planner import ChunkPlan, FileStatistics, plan_parts
from airflow_backfill_provider.core.progress import BackfillState, Completed
from airflow_backfill_provider.core.row_estimate import rows_of
from airflow_backfill_provider.core.scan import VnodeRange, divide
from airflow_backfill_provider.core.settings import JobSettings
from airflow_backfill_provider.lake.arrangement import ArrangementFiles
from airflow_backfill_provider.lake.chunk_keys import JobVnodes, chunk_files
from airflow_backfill_provider.lake.upstream import UpstreamTable


@dataclass(frozen=True, slots=True)
class SnapshotPlan:
    """
    The snapshot side of one epoch.

    :param row_count: rows that the job is about, as of the epoch; an estimate for progress only.
    :param parts: the chunk of each parallel run that has one.
    :param vnode_ranges: the vnodes that each run owns; empty if runs don't divide them.
    :param arranges: whether the epoch has to make the arrangement first, which is why it reads nothing.
    """

    row_count: int
    parts: tuple[ChunkPlan, ...] = ()
    vnode_ranges: tuple[VnodeRange, ...] = ()
    arranges: bool = False

    @property
    def ranges(self) -> tuple[KeyRange, ...]:
        """What all parts read together."""
        return tuple(covered for part in self.parts for covered in part.ranges)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the planner has to say."""
        return tuple(dict.fromkeys(warning for part in self.parts for warning in part.warnings))


def plan_snapshot(
    settings: JobSettings,
    state: BackfillState,
    upstream: UpstreamTable,
    *,
    from_version: int,
    version: int,
    previous: Barrier | None,
    storage_options: Mapping[str, str] | None,
) -> SnapshotPlan:
    """
    Plan what an epoch reads.

    :param state: the committed state.
    :param from_version: the upstream's version that the previous epoch ended with.
    :param version: the upstream's version that the chunk will be read at.
    :param previous: the barrier before, if there is one in this incarnation.
    :raises StateError: if the arrangement is gone although epochs began to read it.
    """
    if state.completed:
        return SnapshotPlan(previous.upstream.row_count if previous else 0)
    if not settings.scan.by_vnode:
        return _plan_in_place(settings, state, upstream, version)
    arrangement = ArrangementFiles(settings.arrangement, storage_options)
    rows = upstream.row_count(version)
    if not arrangement.exists():
        if settings.cancelled:
            raise JobCancelledError(
                f"job {settings.job['name']} was cancelled and its arrangement is gone; rebuild it to start over"
            )
        if previous is not None:
            raise StateError(
                f"the arrangement of job {settings.job['name']} is gone from {arrangement.path}, but epochs began to "
                "read it; restore it, or rebuild the job"
            )
        return SnapshotPlan(_rows_of_job(settings, upstream, version, rows), arranges=True)
    # What is not cut need not be counted.
    counts = settings.reads_snapshot and settings.rate_limit is not None
    coming = upstream.window_changes(settings, from_version, version) if counts else None
    files, keys = arrangement.statistics(settings.scan.order, settings.base_epoch, settings.own_columns, coming)
    row_count = sum(file.row_count for file in files)
    if settings.keys == EVERYTHING:
        row_count = _rows_of_job(settings, upstream, version, rows)
    owned = _vnode_ranges(settings, state, files, previous)
    if not settings.reads_snapshot:
        return SnapshotPlan(row_count, vnode_ranges=owned)
    rate_limit = settings.rate_limit
    parts = plan_parts(
        files,
        unread=[settings.scan.unread(state, vnodes) for vnodes in owned],
        rate_limit=_shrunk(rate_limit, upstream, from_version, rows) if coming is None else rate_limit,
        order=settings.scan.order,
        keys=keys,
    )
    return SnapshotPlan(row_count, tuple(part for part in parts if part.ranges), owned)


def _plan_in_place(settings: JobSettings, state: BackfillState, upstream: UpstreamTable, version: int) -> SnapshotPlan:
    scan = settings.scan
    stored = upstream.files_at(version)
    row_count = rows_of(stored.files(scan.order), settings.definition, settings.key_order)
    if not settings.reads_snapshot:
        return SnapshotPlan(row_count)
    files, keys = chunk_files(stored, scan.order, JobVnodes.of(settings.definition, settings.types))
    parts = plan_parts(files, unread=[scan.unread(state)], rate_limit=settings.rate_limit, order=scan.order, keys=keys)
    return SnapshotPlan(row_count, parts)


def _rows_of_job(settings: JobSettings, upstream: UpstreamTable, version: int, rows: int) -> int:
    """
    Estimate the rows that a job is about.

    :param rows: those of the upstream; without a range of keys, its files need not be looked at.
    """
    job = settings.definition
    if settings.keys == EVERYTHING:
        return rows * len(job.vnodes) // job.vnode_count
    return rows_of(upstream.files_at(version).files(settings.key_order), job, settings.key_order)


def _shrunk(rate_limit: int | None, upstream: UpstreamTable, from_version: int, rows_after: int) -> int | None:
    """
    Leave room for rows that are inserted in the window, where nobody knows which: as if they came everywhere.

    :param from_version: the version at the window's begin.
    :param rows_after: the upstream's rows at its end.
    """
    if rate_limit is None:
        return None
    try:
        rows_before = upstream.row_count(from_version)
    except ChangeFeedGapError:
        # The window begins behind it; whether all its changes are there is looked at on its own.
        return rate_limit
    if rows_after <= rows_before:
        return rate_limit
    return max(rate_limit * rows_before // rows_after, 1)


def _vnode_ranges(
    settings: JobSettings, state: BackfillState, files: Sequence[FileStatistics], previous: Barrier | None
) -> tuple[VnodeRange, ...]:
    """
    Return the vnodes that each run owns: as before, unless that makes runs idle while others have vnodes to spare.

    A rescale takes effect here.
    """
    unfinished = [vnode for vnode, progress in enumerate(state.vnodes) if not isinstance(progress, Completed)]
    if previous is not None and previous.parallelism == settings.parallelism:
        working = sum(any(first <= vnode <= last for vnode in unfinished) for first, last in previous.vnode_ranges)
        if working == min(settings.parallelism, len(unfinished)):
            return previous.vnode_ranges
    return divide(state, settings.parallelism, _rows_by_vnode(files, len(state.vnodes)))


def _rows_by_vnode(files: Sequence[FileStatistics], vnode_count: int) -> list[float]:
    """Estimate each vnode's rows: those of a file are spread evenly over the vnodes that it reaches."""
    rows = [0.0] * vnode_count
    for file in files:
        first, last = (file.lower[0], file.upper[0]) if file.lower and file.upper else (0, vnode_count - 1)
        if isinstance(first, int) and isinstance(last, int):
            for vnode in range(first, last + 1):
                rows[vnode] += file.row_count / (last - first + 1)
    return rows
